"""The report's tables: rows of cells, each with the key that it is sorted by. One macro draws them all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from kafkawire.report.partitions import Picture
from kafkawire.report.words import CHECKS, broken, label, reason_of, spelled, tone, waiting
from kafkawire.rows import Audit, CheckAnswer, Finding
from kafkawire.transactions.wording import duration

#: Rows that a table shows; the rest is counted, and `--format json` has them all.
MOST_ROWS = 500

_ANSWER_TONES = {"violated": "stuck", "not_checkable": "unknown", "holds": "fine"}


class Cell(msgspec.Struct, frozen=True):
    """A cell of a table.

    Attributes:
        key: what it is sorted by where that is not its text; None where it is not known: those stand last.
        tone: its colour, one of `words.TONES`. `code`: it is a name of Kafka's.
        anchor: the id of the section of this page that it leads to. `bar`: per cent of a bar beside its text.
    """

    text: str
    key: int | str | None = ""
    tone: str | None = None
    code: bool = False
    anchor: str | None = None
    bar: float | None = None


class Column(msgspec.Struct, frozen=True):
    """A column's heading, and whether it holds numbers."""

    name: str
    number: bool = False


class Table(msgspec.Struct, frozen=True):
    """A table with its caption; `hidden`: rows that are not in it."""

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    hidden: int = 0


def number(value: int | None) -> Cell:
    """An offset or id as commands take it, or that it is not known."""
    return Cell("unknown", None) if value is None else Cell(str(value), value)


def amount(value: int) -> Cell:
    """How many, with its thousands apart."""
    return Cell(f"{value:,}", value)


def words(value: str) -> Cell:
    return Cell(value, value)


def name(value: str | None) -> Cell:
    """A name of Kafka's or its users'."""
    return Cell("none", None) if value is None else Cell(value, value, code=True)


def place(topic: str, partition: int, cluster: str | None, *, several: bool) -> Cell:
    """`orders-1`, which sorts before `orders-10`."""
    text = f"{topic}-{partition}"
    return Cell(f"{cluster or 'unknown'}: {text}" if several else text, f"{topic}-{partition:010}", code=True)


def table(caption: str, columns: Sequence[str], rows: Iterable[tuple[Cell, ...]], total: int) -> Table:
    """A table of the first rows. A column whose heading ends with `#` holds numbers."""
    shown = tuple(row for row, _ in zip(rows, range(MOST_ROWS), strict=False))
    heads = tuple(Column(head.removesuffix("#"), head.endswith("#")) for head in columns)
    return Table(caption, heads, shown, total - len(shown))


# What is in them -----------------------------------------------------------------------------------------------------


def findings(audit: Audit, ordered: Sequence[Finding], anchors: Sequence[str]) -> Table:
    """All open transactions, in that order; `anchors`: of the first of them, which have a section of their own."""
    several = len(audit.read.clusters) > 1

    def row(position: int, finding: Finding) -> tuple[Cell, ...]:
        anchor = anchors[position] if position < len(anchors) else None
        return (
            Cell(label(finding), position, tone(finding), anchor=anchor),
            place(finding.topic, finding.partition, finding.cluster_id, several=several),
            number(finding.start_offset),
            words(reason_of(finding).title),
            Cell("unknown", None) if finding.age_ms is None else Cell(duration(finding.age_ms), finding.age_ms),
            amount(waiting(finding)),
            name(finding.transactional_id),
            name(finding.coordinator_state),
            number(finding.producer_id),
            number(finding.producer_epoch),
        )

    columns = ("Finding", "Partition", "From offset#", "Why", "Age#", "Holds back#", "Transactional id", "State",
               "Producer id#", "Epoch#")  # fmt: skip
    rows = (row(position, finding) for position, finding in enumerate(ordered))
    return table("All open transactions, the loudest first", columns, rows, len(ordered))


def partitions(audit: Audit, pictures: Sequence[Picture]) -> Table:
    """Where open transactions are: how far readers get, and how much they wait for."""
    several = len(audit.read.clusters) > 1
    most = max((picture.waiting for picture in pictures), default=0)

    def row(picture: Picture) -> tuple[Cell, ...]:
        behind = picture.waiting
        holder = next((finding for finding in picture.findings if finding.blocked), None)
        return (
            place(picture.topic, picture.partition, picture.cluster_id, several=several),
            Cell(f"{behind:,}", behind, bar=round(100 * behind / most, 1) if most else None),
            Cell("nobody", None) if holder is None else Cell(label(holder), tone=tone(holder)),
            number(picture.last_stable_offset),
            number(picture.high_watermark),
            number(picture.log_start),
            amount(len(picture.findings)),
        )

    columns = ("Partition", "Readers wait for#", "Held by", "Last stable offset#", "High watermark#", "Log start#",
               "Open#")  # fmt: skip
    return table("Partitions with open transactions", columns, map(row, pictures), len(pictures))


def answers(audit: Audit) -> Table:
    """What each rule answers: broken ones first, then those that could not be checked."""
    order = list(_ANSWER_TONES)

    def rank(answer: CheckAnswer) -> int:
        return order.index(answer.answer) if answer.answer in order else len(order)

    def row(answer: CheckAnswer) -> tuple[Cell, ...]:
        return (
            Cell(spelled(answer.answer), rank(answer), _ANSWER_TONES.get(answer.answer)),
            name(answer.check),
            words(CHECKS.get(answer.check, spelled(answer.check))),
            amount(answer.violated),
            amount(answer.held),
            amount(answer.not_checkable),
            amount(answer.noted),
            words("; ".join(answer.lacked)),
        )

    columns = ("Answer", "Rule", "What it says", "Broken#", "Held#", "Not checkable#", "Noted#", "What was lacking")
    ordered = sorted(audit.answers, key=rank)
    return table("The rules that the logs were held against", columns, map(row, ordered), len(ordered))


def violations(audit: Audit) -> Table:
    columns = ("Rule", "What was found", "Place", "Transactional id", "Producer id#", "File")
    shown = broken(audit)
    rows = (
        (
            Cell(found.check, tone="stuck", code=True),
            words(found.what),
            words(found.place),
            name(found.transactional_id),
            number(found.producer_id),
            words(found.file or ""),
        )
        for found in shown
    )
    return table("Where rules are broken, beside what is open", columns, rows, len(shown))


def damage(audit: Audit) -> Table:
    columns = ("File", "Byte#", "Reason", "Detail", "Reading went on at#", "Harmless")
    rows = (
        (
            words(found.file or ""),
            number(found.position),
            words(spelled(found.reason)),
            words(found.detail or ""),
            Cell("nothing more was read", None) if found.resumed_at is None else number(found.resumed_at),
            words("yes" if found.harmless else "no"),
        )
        for found in audit.damage
    )
    return table("What could not be read", columns, rows, len(audit.damage))


def settings(audit: Audit) -> Table:
    columns = ("Setting", "Value#", "From")
    rows = ((name(one.name), number(one.value), words(one.source)) for one in audit.read.settings)
    return table("Settings of the cluster that count here", columns, rows, len(audit.read.settings))
