"""What a worker runs: `Job`, and how its result is compared with another's."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple


class AbsentError(Exception):
    """A contestant that cannot take part; the message is a sentence that says why."""


class Job(NamedTuple):
    """`run` is measured; `check` is a digest of its result, which must be that of every contestant."""

    run: Callable[[], Any]
    check: str
    size: int = 1  # bytes of its input


def digest(*parts: bytes | bytearray | memoryview) -> str:
    """Of the parts joined."""
    return digest_all(parts)


def digest_all(parts: Iterable[bytes | bytearray | memoryview]) -> str:
    whole = hashlib.sha256()
    for part in parts:
        whole.update(part)
    return whole.hexdigest()
