"""`OffsetGap`: offsets that could not be read. It is in a module of its own because the scan that finds them needs
NumPy."""

from __future__ import annotations

import msgspec


class OffsetGap(msgspec.Struct, frozen=True, order=True):
    """Offsets `[start, end)` that could not be read; `end` is None where nothing readable follows."""

    start: int
    end: int | None = None
