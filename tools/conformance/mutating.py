"""Mutants: valid messages with one or two places changed, mostly at lengths, tags and marks.

The interpreter gives the places of a message's lengths, tags, marks, bools and strings; a mutation then writes bytes
there that no encoder writes.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from kafkawire.wire.interpreter import Decoder
from kafkawire.wire.layout import BOOL, KIND_MASK, STRING
from tools.conformance.making import BUDGET, make
from tools.conformance.pairing import Pair


class Spot(NamedTuple):
    """A place in the bytes: its kind, its start and its end."""

    kind: str
    start: int
    end: int


class Mutant(NamedTuple):
    """Bytes to be read, and what was done to them."""

    data: bytes
    what: str


class _SpotRecorder(Decoder):
    """Decodes, and writes down what stands where."""

    spots: list[Spot]

    def uvarint(self, what: str) -> int:
        start = self.position
        value = super().uvarint(what)
        kind = "tag" if what == "a tag" else "size" if "size" in what else "count" if "number of" in what else "varint"
        self.spots.append(Spot(kind, start, self.position))
        return value

    def number(self, kind: int, what: str) -> int:
        start = self.position
        value = super().number(kind, what)
        if "length" in what or "mark" in what:
            self.spots.append(Spot("mark" if "mark" in what else "length", start, self.position))
        return value

    def value(self, code: int, arg: int) -> Any:
        start = self.position
        value = super().value(code, arg)
        if code & KIND_MASK == BOOL:
            self.spots.append(Spot("bool", start, self.position))
        elif code & KIND_MASK == STRING and isinstance(value, str) and value:
            self.spots.append(Spot("text", self.position - len(value.encode()), self.position))
        return value

    def tagged(self, layout: Any, cls: type[Any], values: dict[str, Any]) -> None:
        start = self.position
        super().tagged(layout, cls, values)
        self.spots.append(Spot("tags", start, self.position))


def spots(pair: Pair, data: bytes) -> list[Spot]:
    """The places of a sound message that a mutation can aim at."""
    codec = pair.ours.codec
    surveyor = _SpotRecorder(codec.table, codec.classes, data, 0)
    surveyor.spots = []
    surveyor.struct(codec.layout(pair.our_version))
    return surveyor.spots


def mutants(pair: Pair, seed: int, count: int, *, budget: int = BUDGET) -> list[Mutant]:
    """`count` mutants of one random value of about `budget` bytes.

    Args:
        pair: message and version. `seed`: equal seeds give equal mutants.
        budget: about how many bytes the value has.
    """
    random = Random(f"{pair} mutants {seed}")
    data = b""
    for attempt in range(3):  # not the empty message where there is another
        data = make(pair.ours, pair.our_version, f"mutant {seed} {attempt}", budget=budget).encode(pair.our_version)
        if len(data) > 8:
            break
    places = spots(pair, data)
    out = []
    for _ in range(count):
        mutant = Mutant(data, "")
        for _ in range(1 if random.randrange(4) else 2):
            mutant = _mutate(random, mutant, places)
        out.append(mutant)
    return out


def borders() -> list[tuple[str, int, Mutant]]:
    """(message, version, bytes) at the limits that random bytes do not reach: lengths of text, numbers of tags."""
    out = []
    for size in (32766, 32767, 32768, 40000, 65535, 70000):
        text = b"a" * size
        # ConsumerGroupDescribeRequest v0: GroupIds, IncludeAuthorizedOperations, tags.
        compact = b"\2" + _uvarint(size + 1) + text + b"\0\0"
        out.append(("ConsumerGroupDescribeRequest", 0, Mutant(compact, f"text of {size} bytes")))
        # FindCoordinatorRequest v0: Key with an int16 length.
        plain = (size & 0xFFFF).to_bytes(2, "big") + text
        out.append(("FindCoordinatorRequest", 0, Mutant(plain, f"text of {size} bytes")))
        # Records such as RegisterControllerRecord have no bytes; SaslAuthenticateRequest v2: AuthBytes, tags.
        out.append(("SaslAuthenticateRequest", 2, Mutant(_uvarint(size + 1) + text + b"\0", f"{size} bytes")))
    for count in (1, 9_999, 10_000, 10_001, 20_000):
        # ResponseHeader v1: CorrelationId, tags; each an unknown one of no bytes.
        same = b"\0\0\0\1" + _uvarint(count) + b"\5\0" * count
        out.append(("ResponseHeader", 1, Mutant(same, f"one tag {count} times")))
        ascending = b"".join(_uvarint(tag) + b"\1x" for tag in range(count))
        out.append(("ResponseHeader", 1, Mutant(b"\0\0\0\1" + _uvarint(count) + ascending, f"{count} tags")))
        out.append(("ResponseHeader", 1, Mutant(b"\0\0\0\1" + _uvarint(count), f"{count} tags and no bytes")))
    for tag in (0, 127, 1 << 28, (1 << 31) - 2, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 34):
        out.append(("ResponseHeader", 1, Mutant(b"\0\0\0\1\1" + _uvarint(tag) + b"\1x", f"tag {tag}")))
        out.append(("ResponseHeader", 1, Mutant(b"\0\0\0\1\1\7" + _uvarint(tag) + b"x", f"a tag of {tag} bytes")))
    return out


def _mutate(random: Random, mutant: Mutant, places: list[Spot]) -> Mutant:
    data = mutant.data
    if places and random.randrange(4):
        # Places shift when a first change was of another length: then the second is a blind one at that place.
        spot = random.choice(places)
        if spot.end <= len(data):
            what, new = _mutated_spot(random, spot, data[spot.start : spot.end])
            return Mutant(data[: spot.start] + new + data[spot.end :], f"{mutant.what}{what} at {spot.start}; ")
    how, change = random.choice(_BLIND)
    return Mutant(change(random, data), f"{mutant.what}{how}; ")


# Aimed ---------------------------------------------------------------------------------------------------------------

_VARINTS = (
    "00", "01", "02", "7f", "8000", "8001", "808000", "8080808000", "8080808001", "8080808008", "8080808010",
    "808080800f", "ffffffff07", "ffffffff08", "ffffffff0f", "ffffffff7f", "8080808080", "ffffffffff01", "808001",
    "808002", "feffffff07", "8f4e", "904e", "914e",
)  # fmt: skip
_MARKS = ("00", "01", "02", "7f", "80", "fe", "ff")
_LENGTHS = (-1, -2, 0, 1, 2, 5, 127, 128, 255, 256, 32767, -32768, 65536, 1 << 20, (1 << 31) - 1, -(1 << 31))
_NOT_UTF8 = ("ff", "c0af", "c080", "e08080", "eda080", "edbfbf", "eda0bdedb880", "f08080", "f4908080", "f8888080", "80",
             "c3", "e4b8", "f09f98", "e4b8e4b8ad", "fe80", "c328", "edb081")  # fmt: skip


def _mutated_spot(random: Random, spot: Spot, old: bytes) -> tuple[str, bytes]:
    if spot.kind == "length":
        size = len(old)
        n = random.choice((*_LENGTHS, int.from_bytes(old, "big") + 1, int.from_bytes(old, "big") - 1))
        return f"length {n}", (n % (1 << 8 * size)).to_bytes(size, "big")
    if spot.kind in ("bool", "mark"):
        mark = random.choice(_MARKS)
        return f"{spot.kind} {mark}", bytes.fromhex(mark)
    if spot.kind == "text":
        new = bytes.fromhex(random.choice(_NOT_UTF8))
        at = random.randrange(len(old))
        return "no UTF-8", (old[:at] + new + old[at + len(new) :])[: len(old)]
    if spot.kind == "tags":
        return _tags(random, old)
    if random.randrange(3) == 0:
        over = bytes([old[0] | 128]) + (b"\0" if len(old) == 1 else old[1:])
        return f"{spot.kind} in a longer form", over
    if random.randrange(3) == 0:
        return f"{spot.kind} one off", bytes([old[0] + random.choice((-1, 1)) & 255]) + old[1:]
    varint = random.choice(_VARINTS)
    return f"{spot.kind} {varint}", bytes.fromhex(varint)


def _tags(random: Random, old: bytes) -> tuple[str, bytes]:
    """Another tag section: tags twice, out of order, with a wrong size, of other versions, with too high a count."""
    fields = []
    for _ in range(random.randrange(4)):
        tag = random.choice((0, 1, 2, 3, 4, 5, 10, 127, 300))
        body = random.choice((b"", b"\0", b"\1", b"\2a", b"\0\0\0\1", random.randbytes(random.randrange(24))))
        size = max(0, len(body) + random.choice((0, 0, 0, 1, -1)))
        fields.append(_uvarint(tag) + _uvarint(size) + body)
    if fields and random.randrange(3) == 0:
        fields.append(fields[0])
    count = max(0, len(fields) + random.choice((0, 0, 0, 0, 1, -1)))
    if len(old) > 1 and random.randrange(2) and old[0] < 126:
        return "more tags", bytes([old[0] + count]) + old[1:] + b"".join(fields)
    return "other tags", _uvarint(count) + b"".join(fields)


def _uvarint(n: int) -> bytes:
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes([*out, n])


# Blind ---------------------------------------------------------------------------------------------------------------


#: What is put over other bytes.
_OVER = (b"\xff", b"\x80", b"\0", b"\x7f", b"\xff" * 4, b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\xff\xff")


def _at(random: Random, data: bytes) -> int:
    return random.randrange(len(data) + 1)


def _replaced(data: bytes, at: int, new: bytes, old: int) -> bytes:
    """With `new` in the place of `old` bytes."""
    return data[:at] + new + data[at + old :]


def _flip(random: Random, data: bytes) -> bytes:
    if not data:
        return random.randbytes(1)
    at = random.randrange(len(data))
    return _replaced(data, at, bytes([data[at] ^ 1 << random.randrange(8)]), 1)


def _overwrite(random: Random, data: bytes) -> bytes:
    new = random.choice(_OVER)
    return _replaced(data, _at(random, data), new, len(new))


def _repeat(random: Random, data: bytes) -> bytes:
    low, high = sorted((_at(random, data), _at(random, data)))
    return data[:high] + data[low:]


_BLIND: tuple[tuple[str, Callable[[Random, bytes], bytes]], ...] = (
    ("truncated", lambda random, data: data[: _at(random, data)]),
    ("bytes appended", lambda random, data: data + random.randbytes(random.randint(1, 6))),
    ("a bit flipped", _flip),
    ("overwritten", _overwrite),
    ("inserted", lambda random, data: _replaced(data, _at(random, data), random.randbytes(random.randint(1, 4)), 0)),
    ("deleted", lambda random, data: _replaced(data, _at(random, data), b"", random.randint(1, 4))),
    ("repeated", _repeat),
    ("noise", lambda random, data: random.randbytes(random.randrange(64))),
)
