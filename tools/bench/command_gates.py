"""Gates of `capture` and `dump` that no other bench measures: TLS, cores, memory.

    python -m tools.bench.command_gates                      # prints the section
    python -m tools.bench.command_gates --old PATH --write   # beside another checkout, and into docs/performance.md

TLS is decrypted at a steady rate: the difference of two lengths of one connection, by the difference of the processor
times. The gain of two cores is computed from processor times, since the clock of a busy machine shows nothing: the time
of the reading thread, plus half the time of the threads that it shares the work with.
"""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kafkawire import records
from kafkawire.frames import encode_request, encode_response
from kafkawire.messages import ApiVersionsRequest, ApiVersionsResponse, ProduceRequest, ProduceResponse
from kafkawire.messages.produce_request import PartitionProduceData, TopicProduceData
from tests.capture.tls_traffic import CLIENT, SERVER, Endpoints
from tests.capture.wiretap import Conversation, ethernet, pcap
from tools import ROOT
from tools.bench.cases import LARGE_CAPTURE, Inputs
from tools.bench.measured_commands import run
from tools.bench.measurement import BenchError
from tools.bench.page_sections import Gate, gates_table, integer, section_main
from tools.bench.peak_memory import child_peak

#: Exchanges of the two connections.
_SHORT, _LONG = 2_000, 42_000
_SEGMENT = 400 << 20
_TLS_GATE, _CORES_GATE, _CAPTURE_GATE, _PARQUET_GATE = 20, 1.6, 64, 200

#: Runs a command in this process; prints the processor time of its main thread, and of all.
_TIMED = """
import resource, sys
from kafkawire.cli import main
code = main(sys.argv[1:])
sys.stdout.flush()
def of(who):
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime
print(code, of(resource.RUSAGE_THREAD), of(resource.RUSAGE_SELF), file=sys.stderr)
"""


class Times(NamedTuple):
    """Seconds of processor time: of the thread that reads, and of all."""

    main: float
    all: float


def times(words: list[str], rounds: int, checkout: Path = ROOT) -> Times:
    """Of the fastest run of a command. Raises BenchError where it fails."""
    found = []
    for _ in range(rounds):
        done = run(
            [sys.executable, "-c", _TIMED, *words],
            os.environ | {"PYTHONPATH": str(checkout)},
            out=subprocess.DEVNULL,
            folder=checkout,
        )
        code, main, whole = done.errors.split()[-3:]
        if int(code) not in (0, 4):
            raise BenchError(f"{' '.join(words)}: {done.errors}")
        found.append(Times(float(main), float(whole)))
    return min(found, key=lambda one: one.all)


class Talk(NamedTuple):
    """One connection, with TLS 1.3 and without; its key log, and how many bytes it carries."""

    encrypted: Path
    plain: Path
    keys: Path
    size: int


def connection(folder: Path, exchanges: int) -> Talk:
    """Small Produce requests, each in a record of its own."""
    batch = records.build([records.Record(b"k", b'{"order": 17, "product": "lamp", "cents": 250}')])
    partition = PartitionProduceData(index=0, records=batch)
    body = ProduceRequest(acks=1, topic_data=(TopicProduceData(name="orders", partition_data=(partition,)),))
    messages = [
        (CLIENT, encode_request(ApiVersionsRequest(), version=3, correlation_id=0, client_id="bench")),
        (SERVER, encode_response(ApiVersionsResponse(), version=3, correlation_id=0)),
    ]
    for number in range(1, exchanges + 1):
        messages.append((CLIENT, encode_request(body, version=9, correlation_id=number, client_id="bench")))
        messages.append((SERVER, encode_response(ProduceResponse(), version=9, correlation_id=number)))
    (place := folder / f"tls-{exchanges}").mkdir()
    ends = Endpoints(place, ssl.TLSVersion.TLSv1_3)
    for name, sent in (("tls", ends.connect(messages).sent), ("plain", messages)):
        talk = Conversation()
        for side, data in sent:
            talk.send(side, data)
        (place / f"{name}.pcap").write_bytes(pcap(map(ethernet, talk.close().packets), step_ns=1000))
    return Talk(place / "tls.pcap", place / "plain.pcap", ends.key_log, sum(len(data) for _, data in messages))


def tls_gate(folder: Path, rounds: int, old: Path | None) -> Gate:
    short, long = (connection(folder, size) for size in (_SHORT, _LONG))

    def rate(checkout: Path, *, encrypted: bool = True) -> float:
        """Megabytes a second."""
        took = []
        for talk in (short, long):
            words = [str(talk.encrypted), "--keylog", str(talk.keys)] if encrypted else [str(talk.plain)]
            took.append(times(["capture", *words, "--format", "jsonl"], rounds, checkout).all)
        return (long.size - short.size) / (took[1] - took[0]) / 1e6

    now, plain = rate(ROOT), rate(ROOT, encrypted=False)
    before = None if old is None else rate(old)
    told = f"without TLS {plain:.0f} MB" + ("" if before is None else f", before {before:.1f} MB")
    measured = f"{now:.0f} MB a second" + ("" if before is None else f", {now / before:.0f}×")
    met = before is not None and now / before >= _TLS_GATE
    return Gate(
        f"TLS on one long connection, records of some 150 bytes ({told})", measured, f"at least {_TLS_GATE}×", met
    )


def cores_gates(inputs: Inputs, rounds: int) -> Iterator[Gate]:
    for codec in ("lz4", "zstd"):
        segment, _ = inputs.segment(codec, _SEGMENT, "cores")
        words = ["dump", str(segment), "--print-data-log", "--format", "jsonl", "--jobs"]
        one, two = times([*words, "1"], rounds), times([*words, "2"], rounds)
        gained = one.all / (two.main + (two.all - two.main) / 2)
        what = f"two cores, `dump --print-data-log` of {_SEGMENT >> 20} MB in {codec}"
        yield Gate(what, f"{gained:.2f}×", f"at least {_CORES_GATE}×", gained >= _CORES_GATE)


def memory_gates(inputs: Inputs) -> Iterator[Gate]:
    path, _ = inputs.capture(LARGE_CAPTURE)
    try:
        for options, most in (
            ("", _CAPTURE_GATE),
            (" --body", _CAPTURE_GATE),
            (" --body -o rows.parquet", _PARQUET_GATE),
        ):
            with tempfile.TemporaryDirectory() as folder:
                words = options.replace("rows", f"{folder}/rows").split()
                peak = child_peak([sys.executable, "-m", "kafkawire", "capture", str(path), *words], os.environ)
            if peak is None:
                raise BenchError("capture: no success")
            what = f"most memory of `capture{options}` of 2 GB, 20,000 connections open"
            yield Gate(what, f"{peak / 1e6:.0f} MB", f"under {most} MB", peak / 1e6 < most)
    finally:
        path.unlink()


def section(arguments: Namespace) -> str:
    inputs = Inputs()
    with tempfile.TemporaryDirectory() as folder:
        gates = [tls_gate(Path(folder), arguments.rounds, arguments.old)]
    gates += [*cores_gates(inputs, arguments.rounds), *memory_gates(inputs)]
    return f"{_HEAD}\n\n{gates_table(gates, '**not met**, see below')}\n\n{_NOTES}"


_HEAD = """## TLS, cores and memory

`python -m tools.bench.command_gates` measures it: the steady rate at which one long connection is decrypted (processor
time; beside the checkout before the engine did it); what a second core gains (processor time of the thread that reads,
and half of that of the others); the most memory of the whole process."""

_NOTES = """What is not met, by profile:

- TLS: what decryption adds is a quarter of the time. The rest is that of the same frames without TLS, packets,
  matching and lines, which alone take longer than 20 times as fast as before would allow.
- Two cores: one thread reads, tests checksums and writes the lines; the others decompress and print. `capture` has no
  `--jobs`: one thread follows the connections, and bodies are written where frames are matched.
- Memory: 25 MB are Python and the modules, 10 MB buffers and layouts of messages; each of 20,000 open connections takes
  1.5 KB once it is idle. Before, it was 2.4 KB, and the three peaks 83, 86 and 239 MB."""


if __name__ == "__main__":
    old = {"type": Path, "help": "another checkout with its engine, for the rate of TLS before"}
    options = {"--old": old, "--rounds": integer(3, "runs of each command")}
    sys.exit(section_main("command-gates", __doc__, section, options))
