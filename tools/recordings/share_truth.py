"""Share groups of real brokers, large: `explain --share-group` of every offset, against what consumers were given.

`make share-fates` runs it; the recording `share-groups` is the same, small."""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from kafkawire import logdir
from kafkawire.offsets.copied_shares import explained_shares
from kafkawire.offsets.leading_replica import LeadingReplicas
from kafkawire.rows import ShareRange, ShareTotal
from tools.broker.jars import BROKER_VERSION

from . import share_groups

#: A delivery: its number, what was done, and the mode of the consumer.
Delivery = tuple[int, str, str]


class Compared(NamedTuple):
    """Offsets that were compared, by status and reason; what is wrong, a sentence each; those that are not known since
    their records were removed from the state."""

    offsets: Counter[tuple[str, str | None]]
    wrong: list[str]
    removed: int


def compare(folder: Path) -> Compared:
    """Every offset of every group of a recording.

    Args:
        folder: as `share_groups.make` leaves it.
    """
    truth = json.loads((folder / "truth.json").read_text())
    replicas = LeadingReplicas(logdir.open(str(folder / "node-1"), str(folder / "node-2")))
    told = _told(truth)
    offsets: Counter[tuple[str, str | None]] = Counter()
    wrong: list[str] = []
    removed = 0
    for group in sorted({one["group"] for one in truth["deliveries"]}):
        shares, gaps = explained_shares(replicas, group, limit=truth["limit"])
        wrong += gaps
        for share in shares:
            place = group, share.source.topic or "", share.source.key.partition
            given, added, reached = told.get(place, {}), 0, 0
            for row in share.rows(None):
                if isinstance(row, ShareTotal):
                    added += row.offsets
                if not isinstance(row, ShareRange):
                    continue
                if row.first_offset != reached:
                    wrong.append(f"{place}: offsets {reached} to {row.first_offset - 1} are in no range")
                reached = row.last_offset + 1
                for offset in range(row.first_offset, row.last_offset + 1):
                    if row.reason == "state_removed":
                        removed += 1
                        continue
                    offsets[row.status, row.reason] += 1
                    problem = judge(row, given.get(offset, []), truth["limit"], dead_letters=share.settings)
                    if problem is not None:
                        wrong.append(f"{place}, offset {offset}: {row.status}, {row.reason}: {problem}")
            if not added == reached == share.end:
                wrong.append(
                    f"{place}: {added} offsets in the totals, {reached} in the ranges, and {share.end} there are"
                )
            wrong += share.problems
    return Compared(offsets, wrong, removed)


def _told(truth: dict[str, Any]) -> dict[tuple[str, str, int], dict[int, list[Delivery]]]:
    told: dict[tuple[str, str, int], dict[int, list[Delivery]]] = {}
    for one in truth["deliveries"]:
        for partition, offset, count, done in one["rows"]:
            place = told.setdefault((one["group"], one["topic"], partition), {})
            place.setdefault(offset, []).append((count, done, one["mode"]))
    return told


def judge(row: ShareRange, deliveries: list[Delivery], limit: int, *, dead_letters: object) -> str | None:
    """What is wrong with a row of an offset; None where nothing is.

    Args:
        deliveries: of the offset, in order. limit: of delivery counts.
        dead_letters: the group's settings: with copies in its dead-letter topic reasons are certain.
    """
    status, reason, count = row.status, row.reason, row.delivery_count
    if not deliveries:
        plain = {("available", "never_delivered"), ("archived", "no_record"), ("archived", "aborted")}
        fits = (status, reason) in plain | {("no_record", None), ("available", "open_transaction")}
        return None if fits else "no consumer was given it"
    last, done, mode = deliveries[-1]
    certain = getattr(dead_letters, "dead_letter_topic", None) not in (None, share_groups.MISNAMED)
    if done == "accept":
        return None if (status, count) == ("acknowledged", last) else f"accepted at delivery {last}"
    if done == "reject":
        names = {"rejected"} if certain or last < limit else {"delivery_limit_or_rejected"}
        fits = status in ("archived", "archiving") and reason in names and count == last
        return None if fits else f"rejected at delivery {last}"
    if done == "none" and mode == "hold":
        last -= 1  # which is in the leader's memory only
        if not last:
            return None if (status, reason) == ("available", "never_delivered") else "held at its first delivery"
    if last >= limit:
        names = {"delivery_limit"} if certain else {"delivery_limit_or_rejected"}
        fits = status in ("archived", "archiving") and reason in names and count == last
        return None if fits else f"released at delivery {last}, the limit"
    if (status, reason) == ("archived", "below_log_start"):
        return None
    return None if (status, count) == ("available", last) else f"released at delivery {last}"


def main(
    partitions: Annotated[int, typer.Option(min=1, help="Partitions of the topic with each fate.")] = 4,
    records: Annotated[int, typer.Option(min=20, help="Records of each.")] = 700,
    keep: Annotated[Path | None, typer.Option(help="Where the recordings stay; by default they are removed.")] = None,
) -> None:
    """Records both releases, large, and what goes wrong around share groups, and compares every offset."""
    failed = False
    with tempfile.TemporaryDirectory(prefix="kafkawire-share-") as scratch:
        for version in (BROKER_VERSION, "4.2.0"):
            folder = (keep or Path(scratch)) / f"kafka-{version}"
            share_groups.make(folder, version, partitions, records)
            failed = show(version, compare(folder)) or failed
        from . import share_planted  # which compares with this module

        folder = (keep or Path(scratch)) / "planted"
        failed = show("planted", share_planted.record(folder)) or failed
        found = share_planted.violated(folder)
        print(f"planted: {found}")
        failed = failed or set(found) != share_planted.FAULTS
    sys.exit(1 if failed else 0)


def show(name: str, found: Compared) -> bool:
    """Prints what was compared; whether something is wrong."""
    print(
        f"{name}: {found.offsets.total():,} offsets, {len(found.wrong):,} wrong; {found.removed:,} of removed records"
    )
    for (status, reason), number in sorted(found.offsets.items(), key=str):
        print(f"  {number:6,} {status}{'' if reason is None else f', {reason}'}")
    for text in found.wrong[:20]:
        print(f"  wrong: {text}")
    return bool(found.wrong)


if __name__ == "__main__":
    typer.run(main)
