"""The processor time that each command takes on the smallest input, beside that of `--version`.

    python -m tools.bench.starts            # prints the section
    python -m tools.bench.starts --write    # and writes it into docs/performance.md

A capture without packets, a partition without records, the smallest message, and a mock broker without topics.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

from kafkawire.testing import MockBroker
from tools import ROOT
from tools.bench.measured_commands import run, users_environment
from tools.bench.page_sections import integer, section_main

#: What each command may take of `--version`, and by how much runs differ.
_GATE, _NOISE = 1.3, 0.05
#: A pcap file of Ethernet without a packet.
_NO_PACKETS = bytes.fromhex("d4c3b2a1 0200 0400 00000000 00000000 00000400 01000000")
#: Exit codes of answers: done, found, incomplete.
_ANSWERS = (0, 3, 4, 5)


def commands(folder: Path, broker: str) -> Iterator[tuple[str, ...]]:
    """Each command, on the smallest input. `folder`: where the inputs are made. `broker`: the address of one."""
    capture, logs = folder / "empty.pcap", folder / "logs"
    folder.mkdir(exist_ok=True)
    capture.write_bytes(_NO_PACKETS)
    (partition := logs / "orders-0").mkdir(parents=True)
    (segment := partition / f"{0:020}.log").touch()
    (schemas := folder / "schemas").mkdir()
    shutil.copy(ROOT / "schemas" / "kafka" / "rpc" / "DescribeProducersRequest.json", schemas)
    cluster = ("--bootstrap-server", broker)
    yield ("--version",)
    yield ("--help",)
    yield ("decode", "DescribeProducersRequest", "--version", "0", "0100")
    yield ("encode", "DescribeProducersRequest", "--version", "0", '{"topics":[]}')
    yield ("capture", str(capture))
    yield ("capture", str(capture), "--format", "jsonl", "--body", "--slow", "5")
    yield ("capture", str(capture), "--stats")
    yield ("dump", str(segment))
    yield ("dump", str(segment), "--print-data-log", "--format", "jsonl", "--offset", "0..5")
    yield ("dump", str(segment), "--stats")
    yield ("explain", str(logs), "--topic", "orders", "--partition", "0")
    yield ("why", str(logs), "--topic", "orders")
    yield ("lag", "--help")
    yield ("audit", str(logs))
    yield ("witness", "--captures", str(capture), "--logs", str(logs))
    yield ("compare", str(logs), str(logs))
    yield ("schema", "list")
    yield ("schema", "show", "DescribeProducersRequest")
    yield ("schema", "diff", str(schemas), str(schemas))
    yield ("txn", "list", *cluster)
    yield ("txn", "find-hanging", *cluster)
    yield ("mock", "--help")
    yield ("proxy", "--help")
    yield ("conformance", "--help")


def measured(folder: Path, rounds: int) -> dict[tuple[str, ...], float]:
    """Seconds of processor time of each command, the least of some runs; the commands take turns.

    Raises:
        CommandError: a command gives no answer.
    """
    # Modules are compiled already, as those of an installed package: by the first run of each command.
    environment = users_environment(PYTHONPYCACHEPREFIX=str(folder / "bytecode"))
    with MockBroker({"orders": 1}) as broker:
        found = dict.fromkeys(commands(folder, broker.address), float("inf"))
        for _ in range(rounds + 1):
            for words in found:
                done = run([sys.executable, "-m", "kafkawire", *words], environment, codes=_ANSWERS)
                found[words] = min(found[words], done.processor)
    return found


def table(found: dict[tuple[str, ...], float], folder: Path) -> str:
    """Markdown: of each command its milliseconds, and how many times those of `--version` they are."""
    least = found[("--version",)]
    lines = ["| command | ms | times `--version` |", "|---|---:|---:|"]
    for words, time in found.items():
        factor = f"{time / least:.2f}"
        # Inputs by their names; addresses of this run say nothing.
        shown = " ".join(word.removeprefix(f"{folder}/") for word in words if "127.0.0.1" not in word)
        shown = shown.replace(" --bootstrap-server", "")
        lines.append(
            f"| `{shown}` | {time * 1e3:.0f} | {factor if time / least <= _GATE + _NOISE else f'**{factor}**'} |"
        )
    return "\n".join(lines)


def section(arguments: Namespace) -> str:
    with tempfile.TemporaryDirectory() as name:
        text = table(measured(Path(name), arguments.rounds), Path(name))
    return f"{_HEAD}\n\n{text}\n\n{_NOTES}"


_HEAD = f"""## Start of each command

Processor time (user and system) of each command on the smallest input, the least of some runs that take turns; modules
are compiled already. A factor above {_GATE} is in bold. `python -m tools.bench.starts` measures it."""

_NOTES = """What is above, by `-X importtime`: numpy is 35 ms of all that reads logs (`dump`, `explain`, `why`, `audit`,
`witness`, `compare`), more than half of what `--version` takes in all. The rest is this package: 105 modules and 26 ms
of `capture`; 140 modules and 40 ms of `txn`, with asyncio 15 ms more; 240 modules and 58 ms of `audit`. `schema show`
imports rich, 14 ms."""


if __name__ == "__main__":
    sys.exit(section_main("starts", __doc__, section, {"--rounds": integer(7, "runs of each command")}))
