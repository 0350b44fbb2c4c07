"""`Job`: what a worker runs, and the digest by which results are compared."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple


class AbsentError(Exception):
    """A contestant cannot take part; the message is the reason."""


class Job(NamedTuple):
    """`run` is measured. `check` is a digest of its result, which must be equal for all contestants."""

    run: Callable[[], Any]
    check: str
    size: int = 1  # bytes of its input


def digest(*parts: bytes | bytearray | memoryview) -> str:
    """The digest of the concatenated parts."""
    return digest_all(parts)


def digest_all(parts: Iterable[bytes | bytearray | memoryview]) -> str:
    whole = hashlib.sha256()
    for part in parts:
        whole.update(part)
    return whole.hexdigest()
