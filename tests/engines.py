"""The engines side by side: the generated decoders and the interpreter must accept the same bytes as the same value.

The generated decoders say nothing of what is wrong, and what they refuse is replayed in the interpreter; so a public
`decode` alone would not show that they differ. Here both are asked directly.
"""

from __future__ import annotations

from typing import Any

import pytest
from strategies import same

from kafkawire.errors import DecodeError, EncodeError
from kafkawire.wire import read
from kafkawire.wire.message import Message


def refused(cls: type[Message], version: int, data: bytes, *, strict: bool = False) -> DecodeError | None:
    """The interpreter's error, after looking at what it says; None when it accepts."""
    try:
        cls.codec.interpret(data, version, strict=strict)
    except DecodeError as caught:
        error = caught
    else:
        return None
    assert (error.message, error.version) == (cls.spec.name, version)
    assert 0 <= error.offset <= len(data)
    assert error.expected
    assert error.found
    assert all(part.isidentifier() or part[-1] == "]" for part in error.path.split(".") if error.path)
    assert str(error).startswith(f"{cls.spec.name} v{version}")
    assert f"at byte {error.offset}: expected {error.expected}, found {error.found}" in str(error)
    return error


def agree(cls: type[Message], version: int, data: bytes) -> None:
    """Both engines accept the bytes, as the same value and to the same end, or both refuse them."""
    decoder = cls.codec.decoders[version]
    error = refused(cls, version, data)
    if decoder is not None:
        try:
            value, end = decoder(data, 0)
            accepted = end <= len(data)
        except read.FAILURES:
            accepted = False
        assert accepted == (error is None), error
    if error is not None:
        with pytest.raises(DecodeError) as caught:
            cls.decode(data, version)
        assert (str(caught.value), caught.value.offset) == (str(error), error.offset)
        with pytest.raises(DecodeError):
            cls.codec.interpret(data, version, strict=True)
        return
    expected, expected_end = cls.codec.interpret(data, version)
    if decoder is not None:
        assert same(value, expected)
        assert end == expected_end
    canonical(cls, version, data[:expected_end], expected)


def canonical(cls: type[Message], version: int, data: bytes, value: Any) -> None:
    """Strict accepts exactly the bytes that are written back as they were read."""
    if refused(cls, version, data, strict=True) is None:
        assert cls.decode(data, version, strict=True).encode(version) == data
    else:
        with pytest.raises(DecodeError):
            cls.decode(data, version, strict=True)
        try:
            written = value.encode(version)
        except EncodeError:
            return  # tags twice or out of order cannot be written
        assert written != data
        # Written once more, the value is canonical.
        assert same(cls.decode(written, version, strict=True), value)


def generated_bytes(value: Any, version: int) -> bytes:
    """What the generated encoder writes, with no interpreter behind it."""
    chunks: list[Any] = []
    value.codec.encoders[version](value, chunks.append)
    return b"".join(chunks)


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
