"""`Verdict`: how one comparison with Kafka's classes ended, of whatever kind."""

from __future__ import annotations

from typing import NamedTuple


class Verdict(NamedTuple):
    """How both sides took the same thing.

    Attributes:
        subject: what was compared: a message with its version, how it was made, and which way it went.
        kind: the class of the outcome, which is counted; empty where there is nothing to count.
        wrong: a difference that is not meant, None where there is none.
        data: the bytes in question.
    """

    subject: str
    kind: str = ""
    wrong: str | None = None
    data: bytes = b""

    def __str__(self) -> str:
        shown = f" [{self.data.hex():.600}]" if self.data else ""
        return f"{self.subject}: {self.wrong}{shown}"
