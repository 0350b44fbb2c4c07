"""Rows of premises: what a verdict, or an all-clear, rests on."""

from __future__ import annotations

from kafkawire.rows.base import Row


class Premise(Row, frozen=True, kw_only=True):
    """A condition without which an answer is unknown.

    Attributes:
        name: `place`: the replica that was read is the one that counts (leader, leader epoch); `reach`: everything was
            read, and far enough; `time`: ages rest on times that brokers wrote; `soundness`: nothing that counts was
            damaged; `deadline`: what may still be running has a time from which it is late.
        holds: whether the condition is met.
        what: the condition and what was found, a sentence.
        source: what shows it: a file, a broker's answer, an option; None for nothing.
        needs: how to meet it; None where it holds.
    """

    kind: str = "premise"
    name: str
    holds: bool
    what: str
    source: str | None = None
    needs: str | None = None
