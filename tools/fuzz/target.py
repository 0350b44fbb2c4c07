"""`Target`: one row of the table of what is fuzzed, and what must hold of every input."""

from __future__ import annotations

import tracemalloc
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.fuzz.inputs import HEX, Form

CORPUS = Path(__file__).parent / "corpus"
#: Most that Python may allocate for an input, in bytes: for each of its bytes, and whatever it is.
FACTOR, LEAST = 1000, 32 << 20
#: Allocations are counted for one input of so many, since counting is slow.
_COUNTED = 32


@dataclass(frozen=True, kw_only=True)
class Target:
    """What is fuzzed. A finding is an input for which `check` raises, hangs, or allocates out of proportion.

    Attributes:
        reads: what an input is, and who reads it.
        holds: what else must hold of every input, beside that it ends in a value or in the documented error.
        seeds: the inputs that a fuzzer starts from, made anew for each run.
        form: how inputs are written in the corpus and in findings.
        longest: bytes of an input. `words`: that a fuzzer may put into one.
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
        """One input of a fuzzer."""
        if zlib.crc32(data) % _COUNTED:
            self.check(data)
        else:
            self.run_counted(data)

    def run_counted(self, data: bytes) -> None:
        """One input, twice: what is imported and remembered on first use is no allocation of the input."""
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
        """The lines of the committed corpus; those behind a `#` are comments."""
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        return [line for line in lines if line and not line.startswith("#")]

    def replay(self, lines: Iterable[str]) -> Iterator[tuple[str, Exception]]:
        """The lines that fail, with what they raise."""
        for line in lines:
            try:
                self.run_counted(self.form.data(line))
            except Exception as error:
                yield line, error
