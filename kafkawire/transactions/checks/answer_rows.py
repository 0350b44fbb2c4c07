"""The answers of all checks for all that was read: those of single partitions, added up, and as rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from msgspec.structs import replace

from kafkawire import rows
from kafkawire.transactions.answers import MAX_BREACHES, MAX_KEPT, Answer, Breach, Placed, breach_order
from kafkawire.transactions.checks.check_names import CHECKS, SHARE_CHECKS, TIER_CHECKS

_ORDER = (*CHECKS, *TIER_CHECKS, *SHARE_CHECKS)
#: Number of reasons why a check could not be answered that its row has, each once. There are few.
MAX_REASONS = 20


def summed(answers: Iterable[Placed]) -> tuple[rows.CheckAnswer, ...]:
    """One row for each check that has an answer, in their order."""
    return merged([placed.answer] for placed in answers)


def merged(parts: Iterable[Iterable[Answer | rows.CheckAnswer]]) -> tuple[rows.CheckAnswer, ...]:
    """The answers of several parts of what was read, such as clusters, as one row for each check."""
    by_check: dict[str, list[Answer | rows.CheckAnswer]] = defaultdict(list)
    for answer in chain.from_iterable(parts):
        by_check[answer.check].append(answer)
    return tuple(_summed(by_check[check]) for check in _ORDER if check in by_check)


def added(answers: Sequence[Answer | rows.CheckAnswer]) -> Answer:
    """Answers of one check as one, without their breaches."""
    return Answer(
        check=answers[0].check,
        held=sum(answer.held for answer in answers),
        violated=sum(answer.violated for answer in answers),
        not_checkable=sum(answer.not_checkable for answer in answers),
        noted=sum(answer.noted for answer in answers),
        lacked=tuple(dict.fromkeys(reason for answer in answers for reason in answer.lacked)),
    )


def _summed(answers: Sequence[Answer | rows.CheckAnswer]) -> rows.CheckAnswer:
    total = added(answers)
    return rows.CheckAnswer(
        check=total.check,
        answer=total.answer,
        held=total.held,
        violated=total.violated,
        not_checkable=total.not_checkable,
        noted=total.noted,
        lacked=tuple(sorted(total.lacked)[:MAX_REASONS]),
    )


def violations(answers: Iterable[Placed]) -> list[rows.Violation]:
    """The rows of what is violated: by place, then in their order, then by offset."""
    order = {check: number for number, check in enumerate(_ORDER)}
    found: list[rows.Violation] = []
    broken = (placed for placed in answers if placed.answer.violated or placed.answer.breaches)
    for placed in sorted(broken, key=lambda placed: (placed.place, order[placed.answer.check])):
        found += _rows(placed)
    return found


def capped(placed: Placed, most: int = MAX_KEPT) -> Placed:
    """The answer with its first breaches only, at most `most`."""
    answer = placed.answer
    return replace(placed, answer=replace(answer, breaches=tuple(sorted(answer.breaches, key=breach_order)[:most])))


def each_violation(placed: Placed) -> Iterator[rows.Violation]:
    """A row for each breach that was kept, in their order."""
    return (_row(placed, breach) for breach in sorted(placed.answer.breaches, key=breach_order))


def _rows(placed: Placed) -> Iterator[rows.Violation]:
    """A row for each of the first breaches, and one that counts the others. Breaches that rest on others are gone
    before: `causes.without_consequences` leaves at least one where any is violated."""
    placed = capped(placed, MAX_BREACHES)
    answer = placed.answer
    yield from each_violation(placed)
    more = answer.violated - len(answer.breaches)
    if more:
        what = f"{more} more, after the first {MAX_BREACHES}"
        yield _row(placed, Breach(answer.check, answer.breaches[-1].offset, -1, what))


def _row(placed: Placed, breach: Breach) -> rows.Violation:
    place = placed.place
    return rows.Violation(
        check=breach.check,
        place=f"{place}, offset {breach.offset}",
        what=breach.what,
        file=breach.file or placed.path,
        topic=place.topic,
        partition=place.partition,
        offset=breach.offset,
        producer_id=None if breach.producer_id < 0 else breach.producer_id,
        transactional_id=breach.transactional_id,
    )
