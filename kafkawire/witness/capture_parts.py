"""Captures that are read separately, as on Spark: the collected rows of each, and how they are merged. Pure."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple
from uuid import UUID

import numpy as np

from kafkawire.records.array_types import Int32, Int64
from kafkawire.witness.evidence import Witness
from kafkawire.witness.exchange_rows import Place, Rows
from kafkawire.witness.partition_join import Captured, producer_ids_of, subjects_of

#: Counts that add up, by the collector that has them.
_COUNTS = {
    "sent": ("requests", "undecoded", "old"),
    "fetched": ("fetches", "undecoded", "old"),
    "ended": ("asked", "acknowledged", "shared"),
    "commits": ("commits", "undecoded"),
}


class CapturePart(NamedTuple):
    """What is collected of a capture, beside the rows of its partitions, whose numbers are its own.

    Attributes:
        counts: by collector and name. files, clients, groups: of each number. members: of groups. runs: their number.
        captures: exchanges by file. unmatched: number of requests and responses that stand alone. ended: `ENDED`.
        clusters, topics: ids in Metadata. producer_ids: of transactional batches. subjects: groups and partitions.
    """

    counts: dict[tuple[str, str], int]
    files: list[str]
    clients: list[tuple[str, str]]
    groups: list[str]
    members: dict[int, set[int]]
    runs: int
    captures: Counter[str]
    unmatched: int
    ended: Rows
    clusters: set[str]
    topics: dict[str, set[UUID]]
    producer_ids: Int64
    subjects: set[tuple[str, str, int]]


class Numbers(NamedTuple):
    """The numbers of a part's files, clients and groups among those of all; `runs`: that were before."""

    files: Int32
    clients: Int32
    groups: Int32
    runs: int


def part_of(witness: Witness, captured: dict[Place, Captured]) -> CapturePart:
    """What a witness has collected of one capture. `captured`: what it has of partitions."""
    return CapturePart(
        counts={
            (name, count): getattr(getattr(witness, name), count)
            for name, counts in _COUNTS.items()
            for count in counts
        },
        files=witness.sources.files,
        clients=witness.sources.clients,
        groups=witness.commits.groups,
        members=witness.commits.members,
        runs=witness.positions.runs + 1,
        captures=witness.captures,
        unmatched=witness.unmatched,
        ended=witness.ended.rows(),
        clusters=witness.identity.clusters,
        topics=witness.identity.topics,
        producer_ids=producer_ids_of(captured),
        subjects=subjects_of(captured, witness.commits.groups),
    )


def merged(witness: Witness, part: CapturePart, runs: int) -> Numbers:
    """Adds a part to what a witness has collected.

    Args:
        runs: of the parts before.
    """
    for (name, count), number in part.counts.items():
        collector = getattr(witness, name)
        setattr(collector, count, getattr(collector, count) + number)
    files = np.array([witness.sources.file_number(one) for one in part.files], np.int32)
    clients = np.array([witness.sources.client_number(one) for one in part.clients], np.int32)
    groups = np.array([witness.commits.group(one) for one in part.groups], np.int32)
    for group, members in part.members.items():
        known = witness.commits.members.setdefault(int(groups[group]), set())
        known |= {int(clients[one]) for one in members}
    ended = part.ended.copy()
    if len(ended):
        ended["file"] = files[ended["file"]]
    witness.ended.take(ended)
    witness.captures.update(part.captures)
    witness.unmatched += part.unmatched
    witness.identity.clusters |= part.clusters
    for topic, ids in part.topics.items():
        witness.identity.topics.setdefault(topic, set()).update(ids)
    return Numbers(files, clients, groups, runs)


def renumbered(rows: Rows, numbers: Numbers) -> Rows:
    """Rows of a part, with the numbers of all."""
    found = rows.copy()
    names = found.dtype.names or ()
    for name, known in (("file", numbers.files), ("client", numbers.clients), ("group", numbers.groups)):
        if name in names and len(found):
            found[name] = known[found[name]]
    if "run" in names:
        found["run"] += numbers.runs
    return found
