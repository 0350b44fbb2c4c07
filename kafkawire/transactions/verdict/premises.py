"""The premises of an all-clear: what "no transaction hangs" rests on, whether it holds, and how to get it where not.

Pure: from what was read to `rows.Premise`. A premise that does not hold is also a gap or damage of the answer, or a
transaction that could not be judged. `reach` and `soundness` are of copies, the `live_` ones of a cluster's answers.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafkawire import rows
from kafkawire.transactions.formatting import count, named
from kafkawire.transactions.verdict.case import PLACE, REACH, SOUNDNESS, TIME, met, unmet

#: The most gaps or damaged places that a premise names; the answer has all.
_NAMED = 3
_GRANT = "have what is missing granted or repaired, and look again"


def reach(
    read: int, named_by: Sequence[str], gaps: Sequence[str], passed_over: Sequence[str] = (), given: Sequence[str] = ()
) -> rows.Premise:
    """The premise that every partition that is named was read up to its high watermark.

    Args:
        read: number of partitions that were read.
        named_by: the files that name the partitions of log directories; none: those that were given are all.
        gaps: what was not read, as sentences.
        passed_over: folders that no broker uses. `given`: the paths that were given.
    """
    source = _some(named_by or given) or None
    if gaps:
        what = f"not everything was read: {_some(gaps)}"
        return unmet(REACH, what, "a copy of what is missing", source)
    names = "that the checkpoints and metadata logs name" if named_by else "that were given"
    aside = f"; no broker uses {_some(passed_over)}" if passed_over else ""
    what = f"all partitions {names} were read to their high watermarks ({read:,} replicas){aside}"
    return met(REACH, what, source)


def soundness(damage: Sequence[rows.DamageRow], more: int = 0, read: Sequence[str] = ()) -> rows.Premise:
    """The premise that nothing that was read is damaged. `damage`: in any order, the same place may be in it several
    times. `more`: number of further damaged places. `read`: what was read: paths."""
    found = sorted(
        {(one.file or "", one.position or 0, one.detail or one.reason) for one in damage if not one.harmless}
    )
    places = [f"{file}: at byte {position}: {what}" for file, position, what in found]
    if places:
        files = _some(list(dict.fromkeys(file for file, _, _ in found)))
        return unmet(SOUNDNESS, f"damaged: {_some(places, more)}", "an undamaged copy, or another replica", files)
    return met(SOUNDNESS, "nothing that was read is damaged", _some(read) or None)


# Of a live cluster ----------------------------------------------------------------------------------------------------


def live_place(partitions: int, named_by: Sequence[int], doubts: Sequence[str]) -> rows.Premise:
    """The premise that the leader of each partition answered.

    Args:
        partitions: how many were described.
        named_by: node ids of the brokers that name the same leaders, in the same leader epochs.
        doubts: sentences on partitions that a broker described of which it is not certain that it leads them.
    """
    source = f"Metadata of {named('broker', [*map(str, named_by)])}" if named_by else None
    if doubts:
        what = f"not every partition was described by its leader: {_some(doubts)}"
        return unmet(PLACE, what, "look again when brokers agree on their leaders, without --broker-id", source)
    agree = "this broker names" if len(named_by) == 1 else f"all {len(named_by)} brokers name"
    what = f"{count(partitions, 'partition')} described by the leaders that {agree}, in the same leader epochs"
    return met(PLACE, what, source)


def live_reach(read: int, chosen: int, *, ids: str, hidden: str, gaps: Sequence[str], brokers: str) -> rows.Premise:
    """The premise that every chosen partition was described, and that no transactional id or topic can be hidden.

    Args:
        read, chosen: numbers of partitions.
        ids: why no transactional id is missing, a sentence without its end. `hidden`: why no topic is missing, a
            sentence without its end.
        gaps: what was not read, as sentences.
        brokers: those that answered.
    """
    if gaps:
        what = f"not everything was read: {_some(gaps)}"
        return unmet(REACH, what, _GRANT, brokers)
    return met(REACH, f"{read:,} of {count(chosen, 'chosen partition')} described; {hidden}; {ids}", brokers)


def with_gaps(premises: Sequence[rows.Premise], gaps: Sequence[str]) -> tuple[rows.Premise, ...]:
    """Premises of an all-clear, where more was not read."""
    what = f"not everything was read: {_some(gaps)}"
    return tuple(
        unmet(REACH, what, _GRANT, one.source) if gaps and one.name == REACH and one.holds else one for one in premises
    )


def live_time(clock: str, open_: int, doubts: Sequence[str], skews: Sequence[str]) -> rows.Premise:
    """The premise that ages can be counted. `clock`: what ages count by. `open_`: number of open transactions.
    `doubts`: transactions whose age is not known, with why. `skews`: how far clocks of brokers are from that clock."""
    if doubts:
        needs = "kafkawire txn watch counts from its first sight; have the brokers' clocks synchronized"
        return unmet(TIME, f"not every age is known: {_some(doubts)}", needs, clock)
    if not open_:
        return met(TIME, "no age is needed: no transaction is open", clock)
    measured = f"; allowed for: {_some(skews)}" if skews else ""
    return met(TIME, f"{count(open_, 'open transaction')}, none begun after {clock}{measured}", clock)


def live_soundness(errors: Sequence[str]) -> rows.Premise:
    """The premise that no broker answered with an error. `errors`: of partitions, and of brokers, as sentences."""
    if errors:
        return unmet(SOUNDNESS, f"answers are errors: {_some(errors)}", "repair what they name, and look again")
    return met(SOUNDNESS, "no broker answered with an error")


def _some(texts: Sequence[str], others: int = 0) -> str:
    """The first texts, and how many more there are, with `others`."""
    named = "; ".join(texts[:_NAMED])
    more = len(texts) + others - _NAMED
    return f"{named}; and {more:,} more" if more > 0 else named
