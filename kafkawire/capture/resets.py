"""`Resets`: connections that one side has broken off, and when nothing of them is waited for any longer."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Generic, TypeVar

#: How long data that was on the way is waited for when one side has broken a connection off.
CERTAIN_NS = 1_000_000_000
#: How long both sides have to be silent until a reset is believed, behind whose last data the capture has a hole. Who
#: does not believe it says so at once (RFC 5961, 3.2); a minute is twice the longest that a segment lives (Linux).
DOUBTED_NS = 60_000_000_000

Key = TypeVar("Key")


class Resets(Generic[Key]):
    """By what the reader knows them by, those that have waited for longest first."""

    def __init__(self) -> None:
        self._certain: OrderedDict[Key, int] = OrderedDict()  # since when
        self._doubted: OrderedDict[Key, int] = OrderedDict()  # when it said something last

    def __bool__(self) -> bool:
        return bool(self._certain or self._doubted)

    def note(self, key: Key, certain_ns: int | None, doubted_ns: int | None) -> None:
        """What one more segment has shown of a connection: since when its reset is certain, or when it is in doubt."""
        self._doubted.pop(key, None)
        if certain_ns is None:
            self._certain.pop(key, None)
        else:
            self._certain.setdefault(key, certain_ns)
        if doubted_ns is not None:
            self._doubted[key] = doubted_ns

    def forget(self, key: Key) -> None:
        """It is over."""
        self.note(key, None, None)

    def due(self, now_ns: int) -> Iterator[Key]:
        """Those that have waited for long enough; each is over."""
        for waiting, patience_ns in ((self._certain, CERTAIN_NS), (self._doubted, DOUBTED_NS)):
            while waiting and now_ns - next(iter(waiting.values())) > patience_ns:
                yield waiting.popitem(last=False)[0]
