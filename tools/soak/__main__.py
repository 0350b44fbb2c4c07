"""`make soak`, or `python -m tools.soak`: half an hour beside a cluster under load; nothing lost, no memory that grows.

Prints what was counted and sampled; `--write` puts it into docs/performance.md. Needs Java 17, Maven, Spark, and
tcpdump with the right to record. Ctrl-C ends it with the figures so far. Exit code 3: something was lost, or grew.
"""

from __future__ import annotations

import argparse
import math
import shlex
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

import msgspec
from rich.console import Console

from tools import ROOT
from tools.broker import BrokerToolError, cluster
from tools.broker.jars import BROKER_VERSION
from tools.pages import write_section

from .soak_results import SoakResults, markdown, show
from .soak_run import SoakPlan, soak

PAGE = ROOT / "docs" / "performance.md"
_FOUND = 3
#: Lets transactions hang; leaders come back to where they were soon; segments roll now and then.
_BROKERS = {
    "transaction.partition.verification.enable": False,
    "leader.imbalance.check.interval.seconds": 60,
    "log.segment.bytes": 8 << 20,
}


def positive_int(text: str) -> int:
    if (number := int(text)) <= 0:
        raise ValueError
    return number


def positive_float(text: str) -> float:
    if not 0 < (number := float(text)) < math.inf:
        raise ValueError
    return number


def _arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.soak", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--minutes", type=positive_float, default=30.0, help="of load (default %(default)s)")
    parser.add_argument(
        "--nodes", type=positive_int, default=3, help="brokers; with several, they restart (%(default)s)"
    )
    parser.add_argument("--producers", type=positive_int, default=8, help="transactional producers (%(default)s)")
    parser.add_argument("--rate", type=positive_float, default=60.0, help="transactions a second of all (%(default)s)")
    parser.add_argument("--kafka-version", default=BROKER_VERSION, help="of the brokers (%(default)s)")
    parser.add_argument("--crash", action="store_true", help="brokers that restart are killed")
    parser.add_argument("--write", action="store_true", help="write the section of docs/performance.md")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write what was found")
    parser.add_argument("--from", dest="source", metavar="FILE", type=Path, help="show a run that --json kept")
    return parser.parse_args(words)


def _stated(arguments: argparse.Namespace) -> str:
    """The command, without where a copy went."""
    words = [
        word
        for name in ("minutes", "nodes", "producers", "rate")
        for word in (f"--{name}", f"{getattr(arguments, name):g}")
    ]
    words += ["--kafka-version", arguments.kafka_version]
    words += [f"--{name}" for name in ("crash", "write") if getattr(arguments, name)]
    return f"python -m tools.soak {shlex.join(words)}"


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _run(arguments: argparse.Namespace, console: Console) -> SoakResults:
    for ending in (signal.SIGINT, signal.SIGTERM):  # in a background job Ctrl-C is ignored, and so it were in children
        signal.signal(ending, _interrupt)
    seconds = arguments.minutes * 60
    plan = SoakPlan(
        seconds=seconds,
        producers=arguments.producers,
        rate=arguments.rate,
        hang_every_s=min(120.0, seconds / 4),
        restart_every_s=seconds / 4,
        crash=arguments.crash,
        kafka=arguments.kafka_version,
    )
    with (
        tempfile.TemporaryDirectory(prefix="kafkawire-soak-", ignore_cleanup_errors=True) as folder,
        cluster(arguments.nodes, config=_BROKERS, version=arguments.kafka_version, heap="300m") as running,
    ):
        return soak(
            running,
            plan,
            Path(folder),
            command=_stated(arguments),
            notify=lambda text: console.print(text, highlight=False, markup=False),
        )


def main(words: Sequence[str] | None = None) -> int:
    arguments = _arguments(sys.argv[1:] if words is None else words)
    try:
        if arguments.source:
            found = msgspec.json.decode(arguments.source.read_bytes(), type=SoakResults)
        else:
            found = _run(arguments, Console(stderr=True))
    except KeyboardInterrupt:
        return 130
    except (BrokerToolError, OSError, msgspec.MsgspecError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    show(found, Console())
    if arguments.json:
        arguments.json.write_bytes(msgspec.json.format(msgspec.json.encode(found)))
    if arguments.write:
        write_section(PAGE, "soak", markdown(found))
    return 0 if found.clear else _FOUND


if __name__ == "__main__":
    sys.exit(main())
