"""Checks over every message: a share of the profile's examples for each, and the structs of a message."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import TypeVar

from hypothesis import given, seed, settings
from hypothesis import strategies as st

from kafkawire.wire.message import Struct

T = TypeVar("T")


def structs_of(cls: type[Struct]) -> list[type[Struct]]:
    """The message's class and all structs inside it."""
    found = [cls]
    for at in found:
        found += [field.struct for field in at.spec.fields if field.struct and field.struct not in found]
    return found


def for_all(strategy: st.SearchStrategy[T], share: float, name: str, check: Callable[[T], object]) -> None:
    """Runs a check on a share of the profile's examples.

    Tests over every version of a message have thousands of such runs; where the profile is derandomized each begins
    at a place of its own, given by its name, instead of all at the same one.
    """

    def test(value: T) -> None:
        check(value)

    default = settings.default
    assert default is not None
    run = settings(max_examples=max(1, round(default.max_examples * share)))(given(strategy)(test))
    if default.derandomize:
        run = seed(zlib.crc32(name.encode()))(run)
    run()
