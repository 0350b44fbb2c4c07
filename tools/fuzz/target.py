"""`FuzzTarget`: a parser that is fuzzed, with the property that is checked for every input."""

from __future__ import annotations

import tracemalloc
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.fuzz.inputs import HEX, Form

CORPUS = Path(__file__).parent / "corpus"
#: Limits of Python's allocations for an input, in bytes: for each of its bytes, and in addition for any input.
FACTOR, LEAST = 1000, 32 << 20
#: Allocations are counted for one of this many inputs, because counting is slow.
_COUNTED = 32


@dataclass(frozen=True, kw_only=True)
class FuzzTarget:
    """A parser that is fuzzed. A finding is an input for which `check` raises, hangs, or allocates too much.

    Attributes:
        reads: what an input is, and which function reads it.
        holds: the property of every input, in addition to: it gives a value or the documented error.
        seeds: makes the inputs with which a fuzzer starts.
        form: how inputs are written in the corpus and in findings.
        longest: limit of an input, in bytes.
        words: byte strings that a fuzzer may insert (libFuzzer's dictionary).
    """

    name: str
    reads: str
    holds: str
    check: Callable[[bytes], object]
    seeds: Callable[[], Iterable[bytes]]
    form: Form = HEX
    longest: int = 1024
    words: tuple[bytes, ...] = ()

    def run(self, data: bytes) -> None:
        """Checks one input."""
        if zlib.crc32(data) % _COUNTED:
            self.check(data)
        else:
            self.run_counted(data)

    def run_counted(self, data: bytes) -> None:
        """Checks one input twice and counts the allocations of the second time: imports and caches do not count."""
        self.check(data)
        tracemalloc.start()
        try:
            self.check(data)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak <= LEAST + FACTOR * len(data), f"{peak:,} bytes were allocated for {len(data):,}"

    # What was found ---------------------------------------------------------------------------------------------------

    @property
    def path(self) -> Path:
        return CORPUS / f"{self.name}.txt"

    def corpus(self) -> list[str]:
        """The lines of the committed corpus; those after a `#` are comments."""
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        return [line for line in lines if line and not line.startswith("#")]

    def replay(self, lines: Iterable[str]) -> Iterator[tuple[str, Exception]]:
        """The lines that fail, with what they raise."""
        for line in lines:
            try:
                self.run_counted(self.form.data(line))
            except Exception as error:
                yield line, error
