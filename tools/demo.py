"""`make demo`: the main job on real input. Every step prints a command to run by hand, and its output.

1. A packet capture of real clients at a real broker, decoded.
2. The log directories of a real cluster of three brokers, audited on Spark in local mode: which transactions are open,
   which of them hang, and why.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tools import ROOT

CAPTURE = Path("examples/capture/transactions.pcap")
LOGS = Path("examples/kafka-logs/three-nodes")
REPORT = Path("demo/report.html")
#: Exit codes of `kafkawire audit` with which the demo has shown what it is meant to.
FOUND = (3, 5)

console = Console(highlight=False)


def run(*arguments: object, capture: bool = False) -> subprocess.CompletedProcess[str]:
    """Runs kafkawire in the project's folder, after printing the command."""
    words = [str(argument) for argument in arguments]
    console.print(Text("$ kafkawire " + shlex.join(words), style="bold"))
    command = [sys.executable, "-m", "kafkawire", *words]
    return subprocess.run(command, cwd=ROOT, text=True, stdout=subprocess.PIPE if capture else None)


def decoded_capture() -> list[dict[str, Any]]:
    done = run("capture", CAPTURE, "--body", "--format", "jsonl", capture=True)
    rows: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    if not rows:
        raise SystemExit("the capture could not be decoded")
    return rows


def show_apis(rows: list[dict[str, Any]]) -> None:
    table = Table(title=f"{len(rows)} requests with their responses", title_justify="left", box=SIMPLE_HEAD)
    for name in ("API", "version", "requests", "bytes", "errors in responses"):
        number = name in ("version", "requests", "bytes")
        # On a narrow terminal the errors are wrapped; a number is never cut.
        table.add_column(name, justify="right" if number else "left", no_wrap=number or name == "API", overflow="fold")
    groups: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["api"], row["version"]), []).append(row)
    for (api, version), group in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        errors: Counter[str] = Counter()
        for row in group:
            errors.update(row["errors"])
        size = sum((row["request_bytes"] or 0) + (row["response_bytes"] or 0) for row in group)
        named = ", ".join(f"{name} x {times}" for name, times in sorted(errors.items()))
        table.add_row(Text(str(api)), str(version), str(len(group)), f"{size:,}", Text(named))
    console.print(table)


def open_transactions(response: dict[str, Any]) -> int:
    producers = (
        producer
        for topic in response["topics"]
        for partition in topic["partitions"]
        for producer in partition["activeProducers"]
    )
    return sum(producer["currentTxnStartOffset"] >= 0 for producer in producers)


def show_open_transaction(rows: list[dict[str, Any]]) -> None:
    """One exchange in full: a broker that reports an open transaction."""
    answers = [row for row in rows if row["api"] == "DescribeProducers" and row["response"]]
    row = next((row for row in answers if open_transactions(row["response"])), None)
    if row is not None:
        console.print(f"\nOne of them in full, packet {row['packet']}: a broker's list of a partition's producers")
        console.print(Text(json.dumps({"request": row["request"], "response": row["response"]}, indent=2)))


def main() -> int:
    console.rule("1. A packet capture, decoded")
    rows = decoded_capture()
    console.print("(exit code 4: in packet 934 a client asks in a version that Kafka does not have)")
    show_apis(rows)
    show_open_transaction(rows)

    console.rule("2. The logs of three brokers, audited on Spark")
    (ROOT / REPORT).parent.mkdir(exist_ok=True)
    done = run("audit", LOGS, "--engine", "spark", "--report", REPORT, "--format", "table")
    if done.returncode == 1:  # its own line states why
        return 1
    if done.returncode not in FOUND:
        console.print(
            f"the audit should find hanging transactions (exit code 3 or 5), and ended with {done.returncode}"
        )
        return done.returncode or 1
    console.print(f"\nThe same as a page: {(ROOT / REPORT).resolve().as_uri()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
