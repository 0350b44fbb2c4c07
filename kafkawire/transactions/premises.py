"""The premises of an all-clear: what "no transaction hangs" rests on, whether it holds, and how to get it where not.

Pure: from what was read to `rows.Premise`. A premise that does not hold is also a gap or damage of the answer.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafkawire import rows

REACH, SOUNDNESS = "reach", "soundness"

#: As many gaps or damaged places are named in a premise; the answer has all.
_NAMED = 3


def reach(read: int, named_by: Sequence[str], gaps: Sequence[str], passed_over: Sequence[str] = ()) -> rows.Premise:
    """That every partition was read that is named, up to its high watermark.

    Args:
        read: number of partitions that were read.
        named_by: the files that name the partitions of log directories; none: those that were given are all.
        gaps: what was not read, as sentences.
        passed_over: folders that no broker uses.
    """
    source = _some(named_by) or None
    if gaps:
        what = f"not everything was read: {_some(gaps)}"
        return rows.Premise(name=REACH, holds=False, what=what, source=source, needs="a copy of what is missing")
    names = "that the checkpoints and metadata logs name" if named_by else "that were given"
    aside = f"; no broker uses {_some(passed_over)}" if passed_over else ""
    what = f"all partitions {names} were read to their high watermarks ({read:,} replicas){aside}"
    return rows.Premise(name=REACH, holds=True, what=what, source=source)


def soundness(damage: Sequence[rows.DamageRow]) -> rows.Premise:
    """That nothing that was read is damaged. `damage`: in any order, the same place may be in it several times."""
    found = sorted(
        {(one.file or "", one.position or 0, one.detail or one.reason) for one in damage if not one.harmless}
    )
    places = [f"{file}: at byte {position}: {what}" for file, position, what in found]
    if places:
        return rows.Premise(
            name=SOUNDNESS, holds=False, what=f"damaged: {_some(places)}", needs="an undamaged copy, or another replica"
        )
    return rows.Premise(name=SOUNDNESS, holds=True, what="nothing that was read is damaged")


def _some(texts: Sequence[str]) -> str:
    """The first texts, and how many more there are."""
    named = "; ".join(texts[:_NAMED])
    more = len(texts) - _NAMED
    return f"{named}; and {more:,} more" if more > 0 else named
