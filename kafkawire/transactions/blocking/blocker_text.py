"""Blockers as an operator reads them: blocks of at most eight lines at 80 columns, and commands that run as they are
printed. Pure."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterator, Sequence

from kafkawire.rows import Blocker, FillShare, Lag, LagCount, Wait, Why
from kafkawire.transactions.blocking.blockers import COMPACTION, OFFSET, PARTITION, RECORDS
from kafkawire.transactions.formatting import count, duration, size, when

WIDTH, LINES = 80, 8
_LABEL = 8
_INDENT = "   "
_GROUPS = 3
#: The parts of a block that are left out where a long command leaves no room.
_SPARED = ("on", "filled", "cleaner")


def block(blocker: Blocker, number: int, as_of: int | None) -> list[str]:
    """A blocker: what waits, on what, who must act, until when, and what to run. `number`: its place in the answer,
    from 1. `as_of`: the clock, epoch milliseconds."""
    head = textwrap.shorten(f"{number}. {_title(blocker)}", WIDTH, placeholder=" ...")
    command = [] if blocker.command is None else wrapped_command(blocker.command, f"{_INDENT}{'run':<{_LABEL}}")
    if len(blocker.commands) > 1:
        more = len(blocker.commands) - 1
        command.append(f"{_INDENT}{'':<{_LABEL}}# and {count(more, 'more command')}: --evidence lists all")
    left = LINES - 1 - len(command)
    begun = f"; began {when(blocker.begun)}" if blocker.since is None and blocker.begun is not None else ""
    compacted = [one for one in blocker.waits if one.what == COMPACTION]
    parts = [("waits", _waiting([one for one in blocker.waits if one.what != COMPACTION], as_of))]
    parts.append(("on", blocker.on + begun))
    if compacted:
        parts.append(("cleaner", "; ".join(map(_compaction, compacted))))
    if blocker.fills:
        parts.append(("filled", _fills(blocker.fills)))
    parts.append(("who", f"{blocker.action}{_until(blocker, as_of)}"))
    for label in _SPARED:  # the title names what it waits for, too
        if len(parts) > left:
            parts = [part for part in parts if part[0] != label]
    lines = _fitted(parts, left, last="on" if blocker.producer_id is not None else "who")
    return [head, *lines, *command]


def wrapped_command(command: str, first: str = _INDENT) -> list[str]:
    """A command on lines of at most 80 columns, each but the last with a backslash at its end: a shell takes them as
    one. An option stays beside its value. `first`: what is in front of the first line; blanks are in front of the
    others."""
    words = _words(command)
    blank = " " * len(first)
    lines, line = [], first
    for word in words:
        if line.strip() and line != first and len(line) + 1 + len(word) > WIDTH - 2:
            lines.append(f"{line} \\")
            line = blank + word
        else:
            line = f"{line}{'' if line in (first, blank) else ' '}{word}"
    return [*lines, line]


def _words(command: str) -> list[str]:
    """The words of a command, as they are quoted, with options and their values together."""
    found = re.findall(r"(?:'[^']*'|\"[^\"]*\"|\\.|[^\s'\"\\])+", command)
    joined: list[str] = []
    for word in found:
        if joined and joined[-1].startswith("--") and " " not in joined[-1] and not word.startswith("--"):
            joined[-1] += f" {word}"
        else:
            joined.append(word)
    return joined


def prose(text: str, first: str = "") -> list[str]:
    """A sentence on lines of 80 columns. `first`: in front of the first line; blanks are in front of the others."""
    return textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=" " * len(first), break_on_hyphens=False)


def unwrapped(lines: Sequence[str]) -> list[str]:
    """The commands in printed text: `kafkawire ...` and `kafka-transactions.sh ...`, with continued lines joined."""
    found: list[str] = []
    text = re.sub(r" \\\n\s*", " ", "\n".join(lines))
    for line in text.splitlines():
        match = re.search(r"(?:^|\s)((?:kafkawire|kafka-transactions\.sh) (?:[a-z-]+ )?.*--.*)$", line)
        if match:
            found.append(match.group(1).strip())
    return [" ".join(map(shlex.quote, shlex.split(one, comments=True))) for one in found]


def _title(blocker: Blocker) -> str:
    cause = blocker.cause.replace("_", " ")
    needs = "" if blocker.attention in (None, blocker.cause) else f", {blocker.attention}"
    if blocker.transactional_id is not None:
        who = f"transactional id {blocker.transactional_id!r}"
    elif blocker.producer_id is not None:
        who = f"producer {blocker.producer_id}, without a transactional id"
    else:
        who = ", ".join(sorted({f"{one.topic}-{one.partition}" for one in blocker.waits}))
    return f"{cause}{needs}: {who}" if who else f"{cause}{needs}"


def _waiting(waits: Sequence[Wait], as_of: int | None) -> str:
    """What waits: the first in full, the others by name."""
    if not waits:
        return "not known"
    first, *others = waits
    named = [f"{_short(one)}" for one in others]
    more = f"; and {', '.join(named[:3])}" if named else ""
    return f"{_full(first, as_of)}{more}{f' and {len(named) - 3} more' if len(named) > 3 else ''}"


def _short(wait: Wait) -> str:
    name = f"{wait.topic}-{wait.partition}"
    if wait.what == RECORDS:
        return f"{name} {'at' if wait.now else 'next, at'} {wait.offset}"
    return f"group {wait.group!r}'s offset in {name}" if wait.what == OFFSET else name


def _full(wait: Wait, as_of: int | None) -> str:
    name = f"{wait.topic}-{wait.partition}"
    since = _since(wait, as_of)
    if wait.what == RECORDS:
        about = "about " if wait.estimated else ""
        held = "" if wait.records is None else f": {about}{count(wait.records, 'record')}"
        held += "" if wait.bytes is None else f", {about}{size(wait.bytes)}"
        next_ = "" if wait.now else " (next: an earlier transaction is open)"
        return f"{name} at offset {wait.offset}{next_}{since}{held}"
    if wait.what == OFFSET:
        return f"group {wait.group!r}: its offset in {name} cannot be fetched (UNSTABLE_OFFSET_COMMIT){since}"
    assert wait.what == PARTITION
    return f"{name}{'' if wait.offset is None else f' from offset {wait.offset}'}{since}"


def _since(wait: Wait, as_of: int | None) -> str:
    """Since when it waits; where that is certain from now on only, when the transaction was last written to."""
    at, what = wait.since, "since"
    if (at is None or (as_of is not None and at >= as_of)) and wait.last_timestamp is not None:
        at, what = wait.last_timestamp, "last written to"
    if at is None or at < 0:
        return ""
    ago = f" ({duration(as_of - at)}{' ago' if what != 'since' else ''})" if as_of is not None and as_of >= at else ""
    return f", {what} {when(at)}{ago}"


def _compaction(wait: Wait) -> str:
    behind = "" if wait.bytes is None else f"; {size(wait.bytes)} in closed segments"
    freed = "" if not wait.freed_bytes else f", about {size(wait.freed_bytes)} to free"
    return f"held at offset {wait.offset}{behind}{freed}"


def _fills(fills: Sequence[FillShare]) -> str:
    named = [f"{'others' if one.group is None else repr(one.group)} {one.share:.0%}" for one in fills[:_GROUPS]]
    return f"by {', '.join(named)}"


def _until(blocker: Blocker, as_of: int | None) -> str:
    until = blocker.until
    if until is None or when(until) in blocker.action:
        return "" if until is None or as_of is None or until <= as_of else f" (in {duration(until - as_of)})"
    return f"; until {when(until)}"


def _fitted(parts: Sequence[tuple[str, str]], left: int, last: str) -> list[str]:
    """The parts on that many lines: each gets one, and more where there is room. `last`: the part that gets it last:
    what blocks where it is a transaction, for its id is above."""
    room = [1] * len(parts)
    needed = [len(_wrapped(label, text)) for label, text in parts]
    spare = max(0, left - len(parts))
    for index in sorted(range(len(parts)), key=lambda index: parts[index][0] == last):
        more = min(spare, needed[index] - 1)
        room[index] += more
        spare -= more
    return [line for (label, text), most in zip(parts, room, strict=True) for line in _wrapped(label, text, most)]


def _wrapped(label: str, text: str, most: int | None = None) -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=f"{_INDENT}{label:<{_LABEL}}",
        subsequent_indent=_INDENT + " " * _LABEL,
        max_lines=most,
        placeholder=" ...",
        break_on_hyphens=False,
    )


# Where the time goes -------------------------------------------------------------------------------------------------


def behind(found: Why) -> Iterator[str]:
    """The lag of a group, in all its partitions, as sentences."""
    lags = [one for one in found.lags if one.read_committed is not None]
    if not found.lags:
        return
    counts = [one.read_committed for one in lags if one.read_committed is not None]
    total = counted(counts)
    oldest = max((one.age_ms for one in lags if one.age_ms is not None), default=None)
    age = "" if oldest is None else f", the oldest {duration(oldest)} old"
    places = f"{len(lags)} of {count(len(found.lags), 'partition')}"
    places = count(len(lags), "partition") if len(lags) == len(found.lags) else places
    yield f"The consumer is behind by {total} that it can read now{age}, in {places}."
    for one in lags:
        yield from warnings(one)


def counted(counts: Sequence[LagCount]) -> str:
    """A sum of counts, or its bounds: `12 records (3.4 kB)`, `10 to 14 records`."""
    least, most = sum(one.least for one in counts), sum(one.most for one in counts)
    if least != most:
        return f"{least:,} to {most:,} records"
    known = sum(one.bytes_least for one in counts)
    return count(least, "record") + (f" ({size(known)})" if known or not least else "")


def warnings(lag: Lag) -> Iterator[str]:
    """Warnings about a group's offset in a partition, beyond its lag."""
    name = f"{lag.topic}-{lag.partition}"
    if lag.lost_offsets:
        yield f"{name}: {count(lag.lost_offsets, 'offset')} from {lag.committed_offset} on are deleted, unread."
    if lag.beyond:
        yield f"{name}: the committed offset {lag.committed_offset} is {lag.beyond} beyond the high watermark."
    if lag.committed_offset is None and not lag.unstable:
        yield f"{name}: no offset is committed: it begins where auto.offset.reset says."
