"""The last lines of `kafkawire capture` on standard error: for each file, what could not be read, and why."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

import typer

from kafkawire.cli.arguments import InputError
from kafkawire.cli.exit_codes import INCOMPLETE
from kafkawire.cli.formatting import and_more, brief, counted
from kafkawire.cli.interrupt import INTERRUPTED
from kafkawire.cli.notes import print_note

if TYPE_CHECKING:
    from kafkawire.capture import Summary
    from kafkawire.capture.producer_overlaps import ProducerOverlaps

#: Kinds of problems of a file that are printed as sentences.
_MOST_KINDS = 6
#: A capture or a connection may end within a frame.
_UNFINISHED = re.compile(r"from the (client|broker): N bytes? of a (frame|TLS record) that is not whole")


class FileNotes:
    """Collects one line for each file that has problems or notes."""

    def __init__(self) -> None:
        self._lines: list[tuple[bool, str]] = []  # whether data is missing, and the text
        self._read = False

    def failed(self, file: str, reason: str) -> None:
        """Adds a file that could not be read, or not to its end."""
        self._lines.append((True, f"{file}: {reason}"))

    def note(self, text: str) -> None:
        """Adds a line that is no failure."""
        self._lines.append((False, text))

    def summary(self, file: str, summary: Summary) -> None:
        """Adds the summary of a file that was read."""
        self._read = self._read or summary.connections["kafka"] > 0 or not summary.packets
        for problem in summary.key_log:
            if (True, problem) not in self._lines:
                self._lines.append((True, problem))
        if summary.packets and not summary.exchanges:
            self.failed(file, "; ".join((summary.no_kafka, *_encrypted(summary))))
            return
        incomplete = summary.connections["likely"] > 0 or any(not _is_clear(kind) for kind in summary.problems)
        notes = [*_problems(summary), *_passed_over(summary)]
        if notes:
            self._lines.append((incomplete, f"{file}: {'; '.join(notes)}"))
        if summary.exchanges and not summary.selected:
            self.note(f"{file}: none of its {counted(summary.exchanges, 'exchange')} matches the options")

    def tls(self, file: str, summary: Summary) -> None:
        """Adds the TLS connections of a file: version, cipher suite, names."""
        for kind, count in summary.tls.most_common():
            self.note(f"{file}: {counted(count, 'connection')} with {kind or 'an incomplete TLS handshake'}")

    def overlaps(self, file: str, overlaps: ProducerOverlaps) -> None:
        """Adds the producer ids that two connections of a file use at the same time."""
        from kafkawire.capture.exchange_rows import iso_time

        for found in overlaps.found.values():
            self.note(
                f"{file}: producer id {found.producer_id} epoch {found.epoch} is used at the same time by "
                f"{' and '.join(found.connections)}, from {iso_time(found.first_ns)} to {iso_time(found.last_ns)}"
            )

    def incomplete(self) -> list[str]:
        """Sentences on what could not be read of the files, for a command that judges them. Raises InputError: nothing
        could be read."""
        missing = [text for incomplete, text in self._lines if incomplete]
        if missing and not self._read:
            raise InputError(missing[0] + and_more(len(missing)))
        return missing

    def end(self, *, interrupted: bool = False) -> None:
        """Prints the lines and raises the command's exit; returns if all data was read."""
        missing = [text for incomplete, text in self._lines if incomplete] if interrupted else self.incomplete()
        for incomplete, text in self._lines:
            print_note("incomplete" if incomplete else "note", brief(text))
        if interrupted:
            raise typer.Exit(INTERRUPTED)
        if missing:
            raise typer.Exit(INCOMPLETE)


def _problems(summary: Summary) -> Iterator[str]:
    """The first sentence of each kind of problem: unreadable data before the capture's ends, frequent ones first."""
    kinds = [kind for kind, _ in summary.problems.most_common() if not _is_usual(kind)]
    kinds.sort(key=_is_clear)
    for kind in kinds[:_MOST_KINDS]:
        more = summary.problems[kind] - 1
        yield summary.first[kind] + (f" (and {more} more like it)" if more else "")
    if len(kinds) > _MOST_KINDS:
        rest = kinds[_MOST_KINDS:]
        yield f"{sum(summary.problems[kind] for kind in rest)} problems of {len(rest)} more kinds"


def _passed_over(summary: Summary) -> Iterator[str]:
    """Data that was not decoded, and data from before the capture."""
    if summary.joined:
        yield (
            f"{counted(summary.joined_bytes, 'byte')} before the first frames of "
            f"{counted(summary.joined, 'connection')} whose beginning was not captured"
        )
    for verdict, what in (
        ("likely", "that may be Kafka's, with too few frames to be certain: they are not shown"),
        ("tls", "encrypted (TLS), not decoded"),
        ("undecided", "of which too little was captured to determine whether they are Kafka's"),
        ("other", "not Kafka's"),
    ):
        if summary.bytes[verdict]:
            yield f"{counted(summary.connections[verdict], 'connection')} ({summary.bytes[verdict]:,} bytes) {what}"
    yield from _encrypted(summary)
    for reason, count in summary.skipped.most_common():
        yield f"{counted(count, 'packet')} skipped: {reason}"


def _encrypted(summary: Summary) -> Iterator[str]:
    """Why TLS connections were not decrypted; the client random leads to the line that a key log lacks."""
    for ends, reason in islice(summary.encrypted.items(), _MOST_KINDS):
        yield f"{ends}: {reason}"
    if len(summary.encrypted) > _MOST_KINDS:
        yield f"and {len(summary.encrypted) - _MOST_KINDS} more TLS connections"


def _is_usual(kind: str) -> bool:
    from kafkawire.capture.matcher import NO_RESPONSE, TOKEN

    return kind in (NO_RESPONSE, TOKEN)


def _is_clear(kind: str) -> bool:
    """Whether all captured data was read in spite of a problem of that kind: a capture may end before a response."""
    return _is_usual(kind) or _UNFINISHED.fullmatch(kind) is not None
