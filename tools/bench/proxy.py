"""`python -m tools.bench.proxy`: what a connection through `kafkawire.proxy` costs: bytes, time, memory.

Three measurements on loopback, the proxy in a process of its own:

- throughput: MB that pass for a second of the proxy's CPU, as one large response after the other;
- latency: median microseconds that a round trip of a small request takes more than without the proxy, taking turns;
- idle: MB of the proxy with so many connections, each of which has asked for the broker's versions.

`--write` writes the section of docs/performance.md.
"""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import statistics
import subprocess
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import msgspec

from kafkawire import frames
from kafkawire.messages import ApiVersionsRequest, HeartbeatRequest
from kafkawire.proxy import Proxy
from tools import ROOT
from tools.bench.machine_info import machine
from tools.bench.page_sections import Gate, gates_table, integer, section_main

GOAL_MB_S, GOAL_MS, GOAL_MB, GOAL_CONNECTIONS = 200, 0.3, 300, 10_000
_RESPONSE = 1 << 20
_TICK = os.sysconf("SC_CLK_TCK")
_SMALL = frames.encode_request(HeartbeatRequest(group_id="g", member_id="m"), version=4, correlation_id=5)
_VERSIONS = frames.encode_request(
    ApiVersionsRequest(client_software_name="a", client_software_version="1"), version=3, correlation_id=5
)


_ANSWER = frames.with_size((5).to_bytes(4, "big") + bytes(6))


class Measured(msgspec.Struct, frozen=True):
    """Attributes:
    mb_s: MB a second of CPU. `direct_us`, `added_us`: a round trip without the proxy, and what the proxy adds.
    connections, idle_mb: how many are idle, and the resident memory of the proxy then.
    """

    mb_s: float
    direct_us: float
    added_us: float
    connections: int
    idle_mb: float


class _Process(AbstractContextManager["_Process"]):
    """A proxy in a process of its own, which ends with the block."""

    def __init__(self, broker: tuple[str, int]) -> None:
        command = [sys.executable, "-m", "tools.bench.proxy", "--run", f"{broker[0]}:{broker[1]}"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        assert self._process.stdout is not None
        host, _, port = self._process.stdout.readline().strip().rpartition(":")
        self.address = host, int(port)

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self._process.pid}/stat").read_text("ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICK

    def resident_mb(self) -> float:
        lines = Path(f"/proc/{self._process.pid}/status").read_text("ascii").splitlines()
        return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()


@contextmanager
def _broker(answer: bytes, times: int = 1) -> Iterator[tuple[str, int]]:
    """A server that answers each request with the same frame, so many times."""

    def serve(connection: socket.socket) -> None:
        with connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while connection.recv(1 << 16):
                for _ in range(times):
                    connection.sendall(answer)

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return  # it is closed
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()
        listener.shutdown(socket.SHUT_RDWR)


def throughput(mb: int) -> float:
    """MB that pass for a second of the proxy's CPU."""
    answer = frames.with_size((5).to_bytes(4, "big") + bytes(_RESPONSE - 4))
    count = max(1, mb * 10**6 // len(answer))
    with _broker(answer, count) as broker, _Process(broker) as proxy, socket.create_connection(proxy.address) as client:
        client.sendall(_SMALL)
        buffer, left = bytearray(1 << 20), count * len(answer)
        before = proxy.cpu_s()
        while left:
            left -= client.recv_into(buffer, min(len(buffer), left))
        return count * len(answer) / 1e6 / max(proxy.cpu_s() - before, 1 / _TICK)


def latency(rounds: int) -> tuple[float, float]:
    """Median microseconds of a round trip without the proxy, and those that it adds."""
    answer = frames.with_size((5).to_bytes(4, "big") + bytes(10))
    with (
        _broker(answer) as broker,
        _Process(broker) as proxy,
        socket.create_connection(broker) as direct,
        socket.create_connection(proxy.address) as through,
    ):
        taken: dict[socket.socket, list[float]] = {direct: [], through: []}
        for number in range(rounds + 20):
            for client, times in taken.items():
                begun = time.perf_counter_ns()
                client.sendall(_SMALL)
                left = len(answer)
                while left:
                    left -= len(client.recv(left))
                if number >= 20:
                    times.append((time.perf_counter_ns() - begun) / 1000)
        found = [statistics.median(times) for times in taken.values()]
        return found[0], found[1] - found[0]


class _Echo(asyncio.Protocol):
    """A broker that answers what comes, without a task for each connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._transport.write(_ANSWER)


async def _idle(count: int) -> float:
    writers: list[asyncio.StreamWriter] = []
    server = await asyncio.get_running_loop().create_server(_Echo, "127.0.0.1", 0)
    with _Process(server.sockets[0].getsockname()) as proxy:
        for _ in range(count):
            reader, writer = await asyncio.open_connection(*proxy.address)
            writers.append(writer)
            writer.write(_VERSIONS)
            await reader.readexactly(len(_ANSWER))
        found = proxy.resident_mb()
        for writer in writers:
            writer.transport.abort()
    server.close()
    return found


def idle(count: int) -> tuple[int, float]:
    """How many connections there were, at most what this system lets a process have, and MB of the proxy then."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit[1], limit[1]))
    count = min(count, limit[1] // 2 - 50)  # each has two sockets in the proxy
    return count, asyncio.run(_idle(count))


def measured(mb: int, rounds: int, connections: int) -> Measured:
    """All three measurements."""
    direct, added = latency(rounds)
    count, resident = idle(connections)
    return Measured(throughput(mb), direct, added, count, resident)


def markdown(found: Measured, about: list[str]) -> str:
    """The section of the page."""
    each = found.idle_mb * 1024 / found.connections
    gates = [
        Gate("a second of CPU passes", f"{found.mb_s:,.0f} MB", f"at least {GOAL_MB_S} MB", found.mb_s >= GOAL_MB_S),
        Gate(
            f"added to a round trip of {found.direct_us:.0f} µs, median",
            f"{found.added_us / 1000:.2f} ms",
            f"under {GOAL_MS} ms",
            found.added_us < GOAL_MS * 1000,
        ),
        Gate(
            f"{found.connections:,} idle connections, resident memory",
            f"{found.idle_mb:,.0f} MB ({each:.0f} KB each)",
            f"{GOAL_CONNECTIONS:,} in {GOAL_MB} MB",
            found.idle_mb / found.connections <= GOAL_MB / GOAL_CONNECTIONS,
        ),
    ]
    return "\n".join(["## A connection through the proxy", "", *about, "", gates_table(gates)]) + "\n"


async def _run(broker: str) -> None:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    async with Proxy(broker) as proxy:
        print(proxy.address, flush=True)
        await asyncio.Event().wait()


def section(options: Namespace) -> str:
    command, load, begun = "python -m tools.bench.proxy --write", os.getloadavg()[0], time.monotonic()
    found = measured(options.mb, options.rounds, options.connections)
    where = machine(command, load, (time.monotonic() - begun) / 60)
    about = [
        f"Written by `{command}`, {where.date}, {where.processor}, {where.cores} cores, load {where.load[0]:.1f}.",
        "Loopback, the proxy in a process of its own; frames that nothing asks for pass undecoded. Each connection has",
        "two sockets in the proxy; how many there can be is the limit of files of the process.",
    ]
    return markdown(found, about)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        asyncio.run(_run(sys.argv[2]))
    else:
        options = {
            "--mb": integer(4000, "megabytes that pass"),
            "--rounds": integer(5000, "round trips"),
            "--connections": integer(GOAL_CONNECTIONS, "idle connections"),
        }
        sys.exit(section_main("proxy", __doc__, section, options))
