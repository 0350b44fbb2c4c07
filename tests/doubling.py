"""How work grows with its input: measured for n and for 8n, so that a quadratic algorithm shows as a ratio near 64.

`assert_linear_steps` counts what the interpreter executes: lines and calls, C functions included. The count is
deterministic. Work inside of one C function (a regular expression, a sort, a search in a list) is one step, therefore
`assert_linear_time` compares the CPU time of the process. Both bounds leave room for n log n and for noise.
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

#: The factor between the two sizes. Linear work grows by 8, quadratic work by 64.
FACTOR = 8

_MOST_STEPS = 14.0
_MOST_TIME = 24.0
_REPEATS = 3


def assert_linear_steps(prepare: Prepare, n: int) -> None:
    """Asserts that work grows at most about linearly between n and 8n, in lines and calls executed."""
    small, large = _steps(prepare(n)), _steps(prepare(FACTOR * n))
    assert large <= _MOST_STEPS * small, f"{small} steps for n={n}, {large} for n={FACTOR * n}: x{large / small:.1f}"


def assert_linear_time(prepare: Prepare, n: int) -> None:
    """Asserts that work grows at most about linearly between n and 8n, in CPU time: the best of several runs."""
    small, large = _seconds(prepare(n), 0), prepare(FACTOR * n)
    most = _MOST_TIME * small
    taken = _seconds(large, most)
    assert taken <= most, f"{small:.4f} s for n={n}, {taken:.4f} s for n={FACTOR * n}: x{taken / small:.1f}"


def assert_linear_in_text(work: Callable[[str], object], n: int, heads: Iterable[str] = HEADS) -> None:
    """Asserts that CPU time grows at most about linearly with a text: each of `heads`, then n times one of `PIECES`."""
    for head, piece in product(heads, PIECES):
        try:
            assert_linear_time(lambda times: partial(work, head + piece * times), n)  # noqa: B023  # called at once
        except AssertionError as error:
            raise AssertionError(f"{head!r} + {piece!r} * n: {error}") from None


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
