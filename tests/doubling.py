"""How work grows with its input: linearly, or faster?

`assert_linear_steps` counts what the interpreter executes: lines and calls, C functions included. It compares what one
more unit of input costs up to n with what it costs from there to 8n. The count is deterministic.

Work inside of one C function (a regular expression, a sort, a search in a list) is one step. `assert_linear_time`
therefore compares the CPU time for n and for 8n: linear work takes 8 times as long, quadratic work 64 times. The bound
leaves room for n log n and for noise. A short time can be off by any factor (a collection of garbage, a cache that was
cold), so one comparison proves nothing: work is faster than linear only if the next factor of 8 shows it, too.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from itertools import product
from types import FrameType
from typing import Any

#: Makes an input of size n, which is not measured, and gives the work to measure.
Prepare = Callable[[int], Callable[[], object]]

#: What strangers' text is made of to be slow to read: a beginning, and a piece that is repeated after it.
HEADS = ("", ";", "=", '"', "\\", "a")
PIECES = (
    *(
        " ",
        "\t",
        "\n",
        "\r\n",
        "\u3000",
        ";",
        "; ",
        '"',
        '";',
        '"" ',
        "'",
        "=",
        ";=",
        ":",
        ",",
        ".",
        "*",
        "/",
        "//",
        "-",
    ),
    *("\\", "\\x", '\\"', "\\u", "1", "1.", "-1", "0x", "a", "ab ", "a=", "[b]", "</", "&", "\x00", "\x1b[", "\x7f"),
    *(
        "é",
        "e\u0301",
        "\u0301",
        "大",
        "\u200b",
        "\u202e",
        "\ud800",
        "\U0001f600",
        "\ufe0f",
        "\ufeff",
        "\U0001f468\u200d",
    ),
)

#: The factor between the two sizes.
FACTOR = 8

#: What one more unit may cost at most later, in what it costs at first; 9 times as much, if the work is quadratic.
_MOST_STEPS = 1.03
#: The work for 8n at most, in the work for n.
_MOST_TIME = 24.0
_REPEATS = 3


def assert_linear_steps(prepare: Prepare, n: int, *, most: float = _MOST_STEPS) -> None:
    """Asserts that work grows at most about linearly between n and 8n, in lines and calls executed.

    Args:
        most: what one more unit may cost behind n, in what it costs before.
    """
    prepare(n)()  # imports, caches
    one, small, large = (_steps(prepare(size)) for size in (1, n, FACTOR * n))
    first, later = (small - one) / (n - 1), (large - small) / (FACTOR * n - n)
    # Half a step: where nothing grows, a finalizer that runs in one of them is no growth.
    assert later <= most * first + 0.5, f"{first:.0f} steps a unit up to {n}, {later:.0f} from there to {FACTOR * n}"


def assert_linear_time(prepare: Prepare, n: int) -> None:
    """Asserts that work grows at most about linearly in CPU time, the best of several runs: between n and 8n, or, where
    it does not, between 8n and 64n."""
    sizes = (n, FACTOR * n, FACTOR * FACTOR * n)
    seconds = [_seconds(prepare(n), 0)]
    for size in sizes[1:]:
        most = _MOST_TIME * seconds[-1]
        seconds.append(_seconds(prepare(size), most))
        if seconds[-1] <= most:
            return
    raise AssertionError(", ".join(f"{taken:.4f} s for n={size}" for size, taken in zip(sizes, seconds, strict=True)))


def assert_linear_in_text(work: Callable[[str], object], n: int, heads: Iterable[str] = HEADS) -> None:
    """Asserts that CPU time grows at most about linearly with a text: each of `heads`, then n of one of `PIECES`. The
    pieces alone are also tried before a character that is in none of them."""
    for (head, tail), piece in product([*((head, "") for head in heads), ("", "!")], PIECES):
        try:
            assert_linear_time(lambda times: partial(work, head + piece * times + tail), n)  # noqa: B023  # called here
        except AssertionError as error:
            raise AssertionError(f"{head!r} + {piece!r} * n + {tail!r}: {error}") from None


def _steps(work: Callable[[], object]) -> int:
    count = 0

    def line(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += 1
        return line

    def call(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "c_call"

    traced, profiled = sys.gettrace(), sys.getprofile()
    sys.settrace(line)
    sys.setprofile(call)
    try:
        work()
    finally:
        sys.setprofile(profiled)
        sys.settrace(traced)
    return count


def _seconds(work: Callable[[], object], enough: float) -> float:
    """The CPU time of the fastest of several runs; of fewer, once one took at most `enough` seconds."""
    best = float("inf")
    for _ in range(_REPEATS):
        begun = time.process_time()
        work()
        best = min(best, time.process_time() - begun)
        if best <= enough:
            break
    return best
