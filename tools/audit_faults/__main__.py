"""`make audit-faults`, or `python -m tools.audit_faults`: thousands of faults of one field, audited one by one.

The audit of one machine, Spark's, and Kafka's own classes judge each. Then true histories are copied at any moments,
and the audit of each copy is compared with the truth. Prints what is missed or false; `--write` puts the numbers into
docs/audit.md. Needs Java 17 and Maven for Kafka's classes, and PySpark; `--no-kafka` and `--no-spark` leave these out,
`--no-faults` all but the histories.
Exit code 3: a fault is missed, a sound directory is not, or an answer to a copy is false.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tools.audit_faults.fault_outcomes import (
    MISSED,
    JudgedFault,
    audit_of,
    failures,
    figures,
    markdown,
    outcomes,
    write,
)
from tools.audit_faults.faults import LogFault, sample
from tools.audit_faults.histories.audit_properties import markdown as of_histories
from tools.audit_faults.histories.audit_properties import summary, tried
from tools.audit_faults.shares import outcomes as share_outcomes
from tools.audit_faults.sound import Files, sound
from tools.pages import write_section
from tools.recordings.archive import ROOT

_PAGE = ROOT / "docs" / "audit.md"
_SHARE_PAGE = ROOT / "docs" / "share-groups.md"
_FOUND = 3
#: Histories whose copies Spark audits as well.
_ON_SPARK = 300


def _arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.audit_faults", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--count", type=int, default=5600, help="faults (default %(default)s)")
    parser.add_argument("--seeds", type=int, default=12, help="sound directories (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="draws the faults (default %(default)s)")
    parser.add_argument("--no-kafka", action="store_true", help="without Kafka's own classes")
    parser.add_argument("--no-spark", action="store_true", help="without Spark")
    parser.add_argument("--no-faults", action="store_true", help="histories only")
    parser.add_argument("--shares-only", action="store_true", help="faults of share groups only")
    parser.add_argument("--processes", type=int, help="that try histories (default: one a processor)")
    parser.add_argument("--on-spark", type=int, metavar="COUNT", help="faults that Spark judges as well (default: all)")
    parser.add_argument("--histories", type=int, default=4000, help="true histories (default %(default)s)")
    parser.add_argument("--write", action="store_true", help="write the section of docs/audit.md")
    return parser.parse_args(words)


def _refusals(made: dict[int, Files], chosen: list[LogFault]) -> dict[str, tuple[str, ...]]:
    from tools.audit_faults.kafka import oracle, refused

    with oracle() as java:
        return {
            str(fault): why
            for number, files in made.items()
            for fault, why in refused(java, files, [one for one in chosen if one.seed == number])
        }


def _differing(root: Path, made: dict[int, Files], judged: list[JudgedFault]) -> list[LogFault]:
    """The faults for which Spark names other rules."""
    from kafkawire.spark.session.sessions import session_on
    from tools.audit_faults.on_spark import rules_by_spark

    named = {str(one.fault): one.outcome.rules for one in judged}
    with session_on(None) as session:
        by_spark = rules_by_spark(session, root, made, [one.fault for one in judged])
        return [fault for fault, rules in by_spark if rules != named[str(fault)]]


def _histories_on_spark(root: Path, count: int) -> list[str]:
    """What Spark says otherwise of copies of histories."""
    from kafkawire.spark.session.sessions import session_on
    from tools.audit_faults.on_spark import differing

    with session_on(None) as session:
        return differing(session, root / "histories", range(count))


def _faults(arguments: argparse.Namespace, root: Path, command: str) -> bool:
    """Judge faults. Returns whether one is missed, or anything false was found."""
    made = {number: sound(number) for number in range(arguments.seeds)}
    chosen = sample(arguments.seeds, arguments.count, arguments.seed, made.__getitem__)
    refusals = {} if arguments.no_kafka else _refusals(made, chosen)
    alarms = 0
    for number, files in made.items():
        write(root / f"sound-{number}", files)
        alarms += len(audit_of(root / f"sound-{number}").violations)
    judged = [JudgedFault(*one, refusals.get(str(one[0]), ())) for one in outcomes(root, made, chosen)]
    on_spark = [] if arguments.no_spark else judged[: arguments.on_spark]
    other = _differing(root, made, on_spark) if on_spark else []
    found = figures(
        judged,
        sound=len(made),
        alarms=alarms,
        by_spark=(len(on_spark), len(other)) if on_spark else None,
        command=command,
    )
    text = markdown(found)
    for line in [*failures(judged), *(f"on Spark: {fault}" for fault in other)]:
        print(line)
    print(text)
    if arguments.write:
        write_section(_PAGE, "faults", text)
    return bool(found.total[MISSED] or alarms or other)


def _shares(arguments: argparse.Namespace, root: Path, command: str) -> bool:
    """Judge faults of share groups. Returns whether one is missed, or anything false was found."""
    lines, wrong = [], False
    for version in ("4.4.0", "4.2.0"):
        found = share_outcomes(root / f"shares-{version}", version)
        lines.append(f"- In the logs of Kafka {version}: {found.line}")
        for group in (*found.missed, *found.false):
            print(f"share groups, {version}: {group}")
        wrong = wrong or bool(found.missed or found.false)
    text = "\n".join((*lines, "", f"Written by `{command}`."))
    print(text)
    if arguments.write:
        write_section(_SHARE_PAGE, "share-faults", text)
    return wrong


def _histories(arguments: argparse.Namespace, root: Path, command: str) -> bool:
    """Try histories. Returns whether anything false was found."""
    on_spark = 0 if arguments.no_spark else min(arguments.histories, _ON_SPARK)
    apart = _histories_on_spark(root, on_spark) if on_spark else []
    with ProcessPoolExecutor(arguments.processes) as processes:
        found = summary(processes.map(tried, range(arguments.histories), chunksize=50))
    for line in [*map(str, found.breaches), *apart]:
        print(line)
    print(found.line)
    if arguments.write:
        write_section(_PAGE, "histories", of_histories(found, command, (on_spark, len(apart))))
    return bool(found.breaches or apart)


def main(words: Sequence[str]) -> int:
    arguments = _arguments(words)
    command = " ".join(["python -m tools.audit_faults", *words])
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        parts = (_shares,) if arguments.shares_only else (_shares, _faults, _histories)
        if arguments.no_faults:
            parts = (_histories,)
        false = [part(arguments, Path(folder), command) for part in parts]
    return _FOUND if any(false) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
