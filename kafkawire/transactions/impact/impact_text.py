"""The impact of an open transaction as sentences, for the command line and the report."""

from __future__ import annotations

from collections.abc import Iterator

from kafkawire.rows import Finding, GroupLag, HeldCompaction, Impact, OffsetRange
from kafkawire.transactions.formatting import count, size, some
from kafkawire.transactions.impact.held_back import RETENTION_HELD, RETENTION_NOT_HELD

_GROUPS = 5


def sentences(finding: Finding) -> list[str]:
    """What a transaction holds back, and what an abort would hide, without records; empty where nothing is known."""
    return [] if finding.impact is None else list(_sentences(finding, finding.impact))


def shown_records(finding: Finding) -> Iterator[str]:
    """The records of the transaction in its impact (`--show-records`), one a line."""
    data = None if finding.impact is None else finding.impact.data
    for record in () if data is None else data.shown:
        key = record.key if record.key_base64 is None else f"base64 {record.key_base64}"
        value = record.value if record.value_base64 is None else f"base64 {record.value_base64}"
        yield f"Record {record.offset}: key {key}, value {value}"


def _sentences(finding: Finding, impact: Impact) -> Iterator[str]:
    held, released = impact.held, impact.released
    if held.end_offset > held.start_offset:
        yield f"Held back from read_committed consumers: {_amount(held)}."
    if released.end_offset == released.start_offset < held.end_offset:
        yield "Ending it alone releases nothing: an earlier transaction is open."
    elif released.end_offset < held.end_offset:
        yield f"Ending it alone releases {_amount(released)}: the next open transaction begins there."
    data = impact.data
    if data is not None:
        least = "at least " if data.estimated else ""
        what = "Its own data" if finding.reason == "stuck_prepare" else "An abort hides"
        where = "" if data.first_offset is None else f", in offsets {data.first_offset} to {data.last_offset}"
        yield f"{what}: {least}{count(data.records, 'record')}{where} ({size(data.bytes)})."
    yield from _waiting(impact.groups)
    if impact.compaction is not None:
        yield _held_compaction(impact.compaction)
    if impact.retention == RETENTION_HELD:
        yield (
            "Retention of local segments is held: tiered storage copies none beyond the last stable offset, and only "
            "what is copied is deleted."
        )
    elif impact.retention == RETENTION_NOT_HELD and finding.blocked:
        yield "Retention is not held: it deletes old segments up to the high watermark, whether it was read or not."
    for text in impact.unknown:
        yield f"Not known: {text}."


def _amount(one: OffsetRange) -> str:
    about = "about " if one.estimated else ""
    records = "" if one.records is None else f", {about}{count(one.records, 'record')}"
    of_bytes = "" if one.bytes is None else f", {about}{size(one.bytes)}"
    estimated = " (estimated)" if one.estimated else ""
    offsets = count(one.end_offset - one.start_offset, "offset")
    return f"{offsets} from {one.start_offset} to {one.end_offset - 1}{records}{of_bytes}{estimated}"


def _waiting(groups: tuple[GroupLag, ...] | None) -> Iterator[str]:
    if groups is None:
        return
    waiting = [f"{one.group!r} ({count(one.lag, 'offset')} behind the log)" for one in groups if one.waits]
    coming = [f"{one.group!r} ({one.committed_lag} before it)" for one in groups if not one.waits and one.committed_lag]
    if waiting:
        yield f"Groups that are at the last stable offset, and wait if they read committed: {some(waiting, _GROUPS)}."
    if coming:
        yield f"Groups that are coming to it: {some(coming, _GROUPS)}."
    if not waiting and not coming:
        yield "No group with committed offsets waits there."


def _held_compaction(held: HeldCompaction) -> str:
    done = "" if held.cleaned_offset is None else f" (it has come to {held.cleaned_offset})"
    left = "" if held.bytes is None else f"; {size(held.bytes)} behind are in closed segments"
    freed = "" if held.freed_bytes is None else f", of which it would free about {size(held.freed_bytes)} (estimated)"
    return f"Compaction is held at offset {held.held_offset}{done}{left}{freed}."
