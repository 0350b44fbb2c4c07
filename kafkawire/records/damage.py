"""`Damage`: bytes that hold no batch, or a batch whose records cannot be read."""

from __future__ import annotations

from typing import NoReturn

import msgspec

from kafkawire.errors import RecordError, ended_at

#: The reason of readable data for which it is not known whether read_committed consumers get it.
UNKNOWN_OUTCOME = "unknown_outcome"


class Damage(msgspec.Struct, frozen=True, gc=False):
    """A range of bytes that holds no batch which could be read.

    Attributes:
        position: where it begins.
        reason: `truncated`, `bad_length`, `bad_header`, `unknown_magic`, `crc_mismatch`, `too_large`, `zeros`, or
            `preallocated` (zeros up to the end, as in a log that is preallocated). Columns also have `bad_records`: a
            batch whose header is right and whose records are not.
        detail: what was found, as text.
        resumed_at: position of the next batch that was proven; None where none follows in the range that is read.
        shortened: the file became shorter while it was read: bytes that it had when it was opened are lost.
    """

    position: int
    reason: str
    detail: str
    resumed_at: int | None = None
    shortened: bool = False

    @classmethod
    def of_shortened(cls, position: int, ended: int, size: int) -> Damage:
        """Damage of a file that became shorter.

        Args:
            position: byte offset that was read.
            ended: byte offset at which the file ended then.
            size: bytes that the file had before.
        """
        return cls(position, "truncated", ended_at(ended, size), shortened=True)

    @classmethod
    def unreadable(cls, error: OSError) -> Damage:
        """Damage of a file that cannot be read."""
        return cls(0, "unreadable", error.strerror or str(error))

    @property
    def harmless(self) -> bool:
        """Whether nothing can be missing: the unused end of a preallocated file."""
        return self.reason == "preallocated"

    @property
    def records(self) -> NoReturn:
        """Raises the damage as an error, for callers that take it for a batch."""
        raise self.error()

    @property
    def control(self) -> NoReturn:
        """Raises the damage as an error, for callers that take it for a batch."""
        raise self.error()

    def error(self) -> RecordError:
        return RecordError(expected="a record batch", found=f"{self.reason}: {self.detail}", offset=self.position)


def described(damage: Damage) -> str:
    """Where damage is and what was found, as the end of a sentence that begins with the file."""
    return f"at byte {damage.position}: {damage.detail or damage.reason}"
