"""`read` and `write`: every function against the interpreter, which executes the same op, on values and on bytes.

These functions do not describe what is wrong: where the interpreter refuses, a reader must raise one of `FAILURES` or
end after the buffer, and a writer raises one of its own.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from kafkawire.errors import DecodeError, EncodeError
from kafkawire.testing.comparison import same
from kafkawire.wire import classic, flexible, read, write
from kafkawire.wire.interpreter import Decoder
from kafkawire.wire.interpreter_encoder import Encoder
from kafkawire.wire.layout import ARRAY, COMPACT, FIXED_SIZES, KIND_MASK, KIND_NAMES, NULLABLE, Table

NOTHING = Table((), (), 0, ())

#: Values of each kind.
VALUES: dict[str, tuple[Any, ...]] = {
    "bool": (True, False),
    "int8": (-128, -1, 0, 127),
    "int16": (-32768, -1, 258, 32767),
    "int32": (-(1 << 31), -1, 16909060, (1 << 31) - 1),
    "int64": (-(1 << 63), -1, 72623859790382856, (1 << 63) - 1),
    "uint16": (0, 258, 65535),
    "uint32": (0, 16909060, (1 << 32) - 1),
    "float64": (0.0, -0.0, 1.5, float("-inf"), float("nan")),
    "uuid": (UUID(int=0), UUID(int=5), UUID(int=(1 << 128) - 1)),
    "string": ("", "a", "é" * 63, "x" * 126, "x" * 127, "x" * 128, "x" * 16383, "\udcff", "x" * 32767),
    "bytes": (b"", b"a", b"x" * 126, b"x" * 127, b"x" * 128, b"\xff" * 16384),
}
#: Around what one prepared call reads, and where a length takes two bytes and three.
LENGTHS = (0, 1, 2, 62, 63, 64, 65, 125, 126, 127, 128, 129)
LONG = (16382, 16383, 16384)
#: Lengths that are no usual ones, in front of whatever follows: negative, longer than needed, too long, beyond the end.
ODD = [
    bytes.fromhex(length) + rest
    for length in (
        "", "00", "01", "02", "03", "7f", "80", "8000", "8100", "8200", "818000", "828000", "81808000", "8180808000",
        "8280808000", "8280808010", "8080808080", "ffffffff07", "ffffffff0f", "8080808008", "8180808008", "ff01",
        "ffff", "fffe", "0000", "0001", "0002", "7fff", "8000", "00000000", "00000001", "00000002", "000000",
        "ffffffff", "fffffffe", "7fffffff", "80000000", "00000040", "00000041", "40", "41", "42", "c100", "818002",
    )
    for rest in (b"", b"\1", b"\0" * 8, b"\1" * 64, b"ab" * 700)
]  # fmt: skip


def codes() -> list[int]:
    """Every op that is no struct's, and that the compiler makes."""
    kinds = [kind for kind, name in enumerate(KIND_NAMES) if name in VALUES]
    lengths = [flags | null for flags in (0, COMPACT) for null in (0, NULLABLE)]
    plain = [kind for kind in kinds if kind in FIXED_SIZES]
    return plain + [kind | flags for kind in kinds if kind not in FIXED_SIZES for flags in lengths] + [
        kind | ARRAY | flags for kind in kinds for flags in lengths
    ]  # fmt: skip


def name_of(code: int) -> str:
    """The name of an op's functions behind `read_` and `write_`."""
    name = KIND_NAMES[code & KIND_MASK]
    if code & ARRAY:
        name = "blobs" if name == "bytes" else name + "s"
    return ("compact_" if code & COMPACT else "") + ("nullable_" if code & NULLABLE else "") + name


CODES = {name_of(code): code for code in codes()}


def interpreted(code: int, data: bytes) -> tuple[Any, int] | None:
    decoder = Decoder(NOTHING, (), data, 0, budget=1 << 40)
    try:
        return decoder.value(code, 0), decoder.position
    except DecodeError:
        return None


def read_by(name: str, data: Any, at: int = 0) -> tuple[Any, int] | None:
    try:
        value, end = getattr(read, f"read_{name}")(data, at)
    except read.FAILURES:
        return None
    return (value, end) if end <= len(data) else None


def written_by(name: str, value: Any) -> bytes | None:
    chunks: list[bytes] = []
    try:
        getattr(write, f"write_{name}")(value, chunks.append)
        return b"".join(chunks)
    except write.FAILURES:
        return None


def values_of(code: int) -> list[Any]:
    some = VALUES[KIND_NAMES[code & KIND_MASK]]
    if not code & ARRAY:
        return [*some, None]
    few = [value for value in some if not isinstance(value, (str, bytes)) or len(value) < 200]
    lengths = (*LENGTHS, *LONG) if some == VALUES["int8"] else LENGTHS
    return [*(tuple(few[i % len(few)] for i in range(length)) for length in lengths), None]


@pytest.mark.slow
@pytest.mark.parametrize("name", CODES)
def test_values_are_written_and_read_as_the_interpreter_does(name: str) -> None:
    code = CODES[name]
    for value in values_of(code):
        encoder = Encoder(NOTHING, ())
        try:
            encoder.value(code, 0, value)
        except EncodeError:
            assert written_by(name, value) is None
            continue
        data = bytes(encoder.out)
        assert written_by(name, value) == data
        if isinstance(value, tuple):
            assert written_by(name, list(value)) == data
        for buffer in (b"?" + data + b"?", memoryview(b"?" + data + b"?")):
            found = read_by(name, buffer, 1)
            assert found is not None
            assert (same(found[0], value), found[1]) == (True, 1 + len(data))
        for cut in {0, 1, 2, 3, 4, 5, len(data) // 2, len(data) - 1} & set(range(len(data))):
            assert read_by(name, data[:cut]) is None


@pytest.mark.slow
@pytest.mark.parametrize("name", CODES)
def test_odd_bytes_are_read_as_the_interpreter_reads_them(name: str) -> None:
    for data in ODD:
        expected, found = interpreted(CODES[name], data), read_by(name, data)
        assert (found is None) == (expected is None), data[:40].hex()
        if found is not None and expected is not None:
            assert (same(found[0], expected[0]), found[1]) == (True, expected[1]), data[:40].hex()


#: Of each form, bytes that were worked out by hand: what both sides are held to.
BY_HAND: list[tuple[str, Any, str]] = [
    ("bool", True, "01"),
    ("int8", -2, "fe"),
    ("int16", 258, "0102"),
    ("int32", -2, "fffffffe"),
    ("int64", 1, "0000000000000001"),
    ("uint16", 65535, "ffff"),
    ("uint32", 4294967295, "ffffffff"),
    ("float64", 1.5, "3ff8000000000000"),
    ("uuid", UUID(int=5), "00" * 15 + "05"),
    ("string", "é", "0002 c3a9"),
    ("nullable_string", None, "ffff"),
    ("nullable_string", "", "0000"),
    ("compact_string", "ab", "03 6162"),
    ("compact_nullable_string", None, "00"),
    ("compact_nullable_string", "", "01"),
    ("bytes", b"ab", "00000002 6162"),
    ("nullable_bytes", None, "ffffffff"),
    ("compact_bytes", b"ab", "03 6162"),
    ("compact_nullable_bytes", None, "00"),
    ("int32s", (1, 2), "00000002 00000001 00000002"),
    ("nullable_int32s", None, "ffffffff"),
    ("compact_int16s", (1, 2), "03 0001 0002"),
    ("compact_nullable_bools", (True, False), "03 01 00"),
    ("compact_nullable_bools", None, "00"),
    ("compact_int8s", (7,) * 127, "8001" + "07" * 127),
    ("strings", ("a", ""), "00000002 0001 61 0000"),
    ("nullable_strings", None, "ffffffff"),
    ("compact_strings", ("a", ""), "03 02 61 01"),
    ("compact_nullable_blobs", (b"a",), "02 02 61"),
    ("compact_nullable_uuids", None, "00"),
]


@pytest.mark.parametrize(("name", "value", "text"), BY_HAND)
def test_the_bytes_of_a_form(name: str, value: Any, text: str) -> None:
    data = bytes.fromhex(text)
    assert written_by(name, value) == data
    assert read_by(name, data) == (value, len(data))
    assert interpreted(CODES[name], data) == (value, len(data))


@pytest.mark.parametrize("name", CODES)
def test_a_value_that_the_interpreter_refuses_is_not_written(name: str) -> None:
    for value in (5.5, "5", b"5", (), ("",), {}, {1}, object(), 1 << 70, True, None, memoryview(b"ab")[::2]):
        encoder = Encoder(NOTHING, ())
        try:
            encoder.value(CODES[name], 0, value)
        except EncodeError:
            assert written_by(name, value) is None, value
        else:
            assert written_by(name, value) == bytes(encoder.out), value


# Structs and tagged fields ------------------------------------------------------------------------------------------


def read_byte(b: Any, p: int, version: int) -> tuple[int, int]:
    assert version == 3
    return read.read_int8(b, p)


def write_byte(value: Any, out: Any, version: int) -> None:
    assert version == 3
    write.write_int8(value, out)


def test_structs_that_may_be_null() -> None:
    marks = {b"\xff": None, b"\x80": None, b"\x00": 7, b"\x01": 7, b"\x7f": 7}
    for mark, value in marks.items():
        end = 1 if value is None else 2
        assert read.read_nullable_struct(read_byte, mark + b"\7", 0, 3) == (value, end)
    for mark, value in {"00": None, "8000": None, "ffffffff0f": None, "01": 7, "8100": 7, "05": 7}.items():
        data = bytes.fromhex(mark)
        end = len(data) + (value is not None)
        assert read.read_tagged_nullable_struct(read_byte, data + b"\7", 0, 3) == (value, end)
    for write_struct, null in ((write.write_nullable_struct, b"\xff"), (write.write_tagged_nullable_struct, b"\0")):
        for value, data in ((None, null), (7, b"\1\7")):
            chunks: list[Any] = []
            write_struct(write_byte, value, chunks.append, 3)
            assert b"".join(chunks) == data


def test_every_function_is_tested() -> None:
    def functions_of(module: Any, verb: str) -> set[str]:
        return {name.removeprefix(verb) for name in vars(module) if name.startswith(verb)}

    of_structs = {"one", "struct", "nullable_struct", "tagged_nullable_struct"}
    of_arrays = {"array", "nullable_array", "compact_array", "compact_nullable_array"}
    assert functions_of(read, "read_") == {*CODES, *of_structs, *of_arrays, "uvarint", "length"}
    assert functions_of(write, "write_") == {*CODES, *of_structs, *of_arrays}


def test_classic_and_flexible_versions_have_functions_of_the_same_names() -> None:
    def functions(module: Any) -> dict[str, Any]:
        return {name: value for name, value in vars(module).items() if name.startswith(("read_", "write_"))}

    assert functions(classic).keys() == functions(flexible).keys()
    for name, function in functions(flexible).items():
        verb, form = name.split("_", 1)
        source = read if verb == "read" else write
        assert function is getattr(source, f"{verb}_compact_{form}")
        assert functions(classic)[name] is getattr(source, name)
