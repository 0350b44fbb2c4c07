"""The engines side by side: each must accept the same bytes as the same value, and write the same bytes, or refuse.

An engine says nothing of what is wrong, and what it refuses is replayed in the interpreter; so a public `decode` alone
would not show that they differ. Here the generated functions, the native engine (where it is installed, whatever
`KAFKAWIRE_BACKEND` says) and the interpreter are asked directly.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import pytest

from kafkawire.errors import DecodeError, EncodeError
from kafkawire.testing.comparison import same
from kafkawire.wire.generated import Generated
from kafkawire.wire.message import Engine, Message

try:
    from kafkawire import _native
except ImportError:
    NATIVE = False
else:
    NATIVE = True


@cache
def native(cls: type[Message]) -> Engine:
    return _native.Codec(cls.codec.table, cls.codec.classes)


@cache
def generated(cls: type[Message]) -> Engine:
    codec = cls.codec
    return Generated(codec.decoders, codec.encoders, codec.holds_bytes)


def engines(cls: type[Message]) -> list[Engine]:
    """All engines but the interpreter, with no other behind them."""
    return [generated(cls), native(cls)] if NATIVE else [generated(cls)]


def readers(cls: type[Message], version: int) -> list[Engine]:
    """The engines that read the version: one that small input could make allocate much has no generated decoder."""
    return [engine for engine in engines(cls) if engine is not generated(cls) or cls.codec.decoders[version]]


def refused(cls: type[Message], version: int, data: bytes, *, strict: bool = False) -> DecodeError | None:
    """The interpreter's error, after checking its text; None when it accepts."""
    found = interpreted(cls, version, data, strict=strict)
    return found if isinstance(found, DecodeError) else None


def interpreted(
    cls: type[Message], version: int, data: bytes, *, strict: bool = False
) -> tuple[Any, int] | DecodeError:
    """The value that the interpreter reads and where it ends, or its error, after checking the error's text."""
    try:
        return cls.codec.interpret(data, version, strict=strict)
    except DecodeError as caught:
        error = caught
    assert (error.message, error.version) == (cls.spec.name, version)
    assert 0 <= error.offset <= len(data)
    assert error.expected
    assert error.found
    assert all(part.isidentifier() or part[-1] == "]" for part in error.path.split(".") if error.path)
    text = str(error)
    assert text.startswith(f"{cls.spec.name} v{version}")
    assert f"at byte {error.offset}: expected {error.expected}, found {error.found}" in text
    return error


def agree(cls: type[Message], version: int, data: bytes) -> DecodeError | None:
    """All engines accept the bytes, as the same value and to the same end, or all refuse them.

    Returns:
        The error, where they refuse.
    """
    outcome = interpreted(cls, version, data)
    found = [engine.decode_from(data, version, 0, False, True) for engine in readers(cls, version)]
    if isinstance(outcome, DecodeError):
        assert found == [None] * len(found), outcome
        with pytest.raises(DecodeError) as caught:
            cls.decode(data, version)
        assert (str(caught.value), caught.value.offset) == (str(outcome), outcome.offset)
        assert refused(cls, version, data, strict=True) is not None
        assert all(engine.decode_from(data, version, 0, True, True) is None for engine in readers(cls, version))
        return outcome
    expected, expected_end = outcome
    for result in found:
        assert result is not None
        assert same(result[0], expected)
        assert result[1] == expected_end
    canonical(cls, version, data[:expected_end], expected)
    return None


def canonical(cls: type[Message], version: int, data: bytes, value: Any) -> None:
    """Strict accepts exactly the bytes that are written back as they were read."""
    error = refused(cls, version, data, strict=True)
    for engine in readers(cls, version):
        assert (engine.decode_from(data, version, 0, True, True) is None) == (error is not None), error
    if error is None:
        assert written(cls.decode(data, version, strict=True), version) == data
    else:
        with pytest.raises(DecodeError):
            cls.decode(data, version, strict=True)
        again = written(value, version)
        if again is None:
            return  # tags twice or out of order cannot be written
        assert again != data
        # Written once more, the value is canonical.
        assert same(cls.decode(again, version, strict=True), value)


def encoded(encode: Callable[..., bytes], *arguments: Any) -> bytes | str:
    """The bytes, or the text of the refusal."""
    try:
        return encode(*arguments)
    except EncodeError as error:
        return str(error)


def written(value: Any, version: int) -> bytes | None:
    """What all engines write, or None where all refuse."""
    cls = type(value)
    outcome = encoded(cls.codec.interpret_encode, value, version)
    assert encoded(value.encode, version) == outcome
    data = outcome if isinstance(outcome, bytes) else None
    for engine in engines(cls):
        assert engine.encode(value, version) == data, (engine, value, outcome)
    return data


def round_trip(value: Any, version: int, expected: Any) -> bytes:
    """The bytes of a value, which every engine writes, finds canonical, and reads as what is expected."""
    cls = type(value)
    data = written(value, version)
    assert data is not None
    for strict in (False, True):
        for decode in (partial(cls.codec.interpret, strict=strict), partial(cls.decode_from, strict=strict)):
            found, end = decode(data, version)
            assert (same(found, expected), end) == (True, len(data))
        for engine in readers(cls, version):
            read = engine.decode_from(data, version, 0, strict, True)
            assert read is not None
            assert (same(read[0], expected), read[1]) == (True, len(data))
        assert same(cls.decode(data, version, strict=strict), expected)
    # What was read is written as it was read.
    assert written(found, version) == data
    return data


def accepts(cls: type[Message], version: int, text: str, *, strict: bool = False) -> Any:
    """The value of bytes given in hex, which every engine reads; `strict` says whether they are canonical."""
    data = bytes.fromhex(text)
    agree(cls, version, data)
    assert (refused(cls, version, data, strict=True) is None) == strict
    return cls.decode(data, version)


def refuses(cls: type[Message], version: int, text: str) -> DecodeError:
    """The error that every engine's refusal ends in."""
    data = bytes.fromhex(text)
    agree(cls, version, data)
    with pytest.raises(DecodeError) as caught:
        cls.decode(data, version)
    return caught.value
