"""JSON as input: our reader turns what Kafka's converters read into the same bytes, and refuses what they refuse."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from random import Random
from typing import Any

from kafkawire import from_json, to_json
from kafkawire.errors import KafkaWireError
from tools.conformance.making import make
from tools.conformance.pairing import Pair
from tools.conformance.verdict import Verdict
from tools.oracle import Oracle

Json = Any

_LEAVES: tuple[Json, ...] = (
    None, True, False, 0, 1, -1, 127, 128, -129, 257, 32768, -32769, 65536, -65536, 1 << 31, 1 << 32, 1 << 63, 1 << 70,
    1.0, 1.5, -0.0, 1e300, [], [1], ["a"], [None], [[]], {}, {"a": 1},
)  # fmt: skip
_TEXTS = (
    "", "a", "1", "0x10", "true", "null", "NaN", "Infinity", "-Infinity", "1e5",
    # base64: sound, without padding, padded too much, of the other alphabet, with blanks, with bits left over
    "AAA=", "AA==", "AA", "AAA", "A", "AAAAA", "=", "AA=A", "AAA=AAAA", "AAAA=", "-_-_", "+/+/", "AAAA AAAA", "AA==\n",
    "AAB=", "AB==", "!", "é",
    # uuids: zero, one, the other alphabet, padded, too long, bits left over
    "AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAQ", "zz__--zzzzzzzzzzzzzzzw", "zz//++zzzzzzzzzzzzzzzw",
    "AAAAAAAAAAAAAAAAAAAAAA==", "AAAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAB",
    "AAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAA=", "00000000-0000-0000-0000-000000000000",
)  # fmt: skip

#: The classes of differences that are meant, and documented.
UNKNOWN_NAME = "a name that the message does not have"
NOT_FINITE = "NaN and infinities as strings"
INT8_OVERFLOW = "128 to 256 for an int8"
LOOSE_BASE64 = "blanks, or text after the padding, in base64"
INTEGER_FOR_FLOAT = "an integer for a float64"
OLD_BASE64 = "base64, which the converters of 2.7 to 3.4 write and cannot read"


_JAVAS_OWN = "Java's own"

Input = tuple[Pair, Json, str]
"""What to read as which message and version, and what was done to it."""


def read_both(oracle: Oracle, work: list[Input]) -> Iterator[Verdict]:
    """Reads the same JSON on both sides."""
    answers = oracle.ask(pair.question("json", json=obj) for pair, obj, _ in work)
    for (pair, obj, what), answer in zip(work, answers, strict=True):
        accepted = "bytes" in answer
        java = answer["bytes"] if accepted else f"{answer.get('error', answer.get('writeError'))}: {answer['text']}"
        try:
            ours, refused = from_json(pair.ours, obj, pair.our_version).encode(pair.our_version).hex(), False
        except KafkaWireError as error:
            ours, refused = str(error), True
        kind, wrong = "", None
        if refused == accepted or not (refused or ours == java):
            kind = _intended(ours if refused else "", java, what)
            wrong = None if kind else f"ours {ours:.200} | Java {java:.200}"
        yield Verdict(f"{pair} JSON, {what}", kind, wrong)


def _intended(ours: str, java: str, what: str) -> str:
    if "unknown field" in ours:
        return UNKNOWN_NAME
    if "floating point type, but got STRING" in java and not ours:
        return NOT_FINITE
    if "out of the range of int8" in ours and any(f" {n} is out" in ours for n in range(128, 257)):
        return INT8_OVERFLOW
    if "not base64" in ours:
        return LOOSE_BASE64
    if "floating point type, but got NUMBER" in java and not ours:
        return INTEGER_FOR_FLOAT
    if what == _JAVAS_OWN and "expected Base64-encoded binary data" in java and not ours:
        return OLD_BASE64
    return ""


def java_made(oracle: Oracle, pairs: list[Pair], seeds: Iterable[int]) -> list[Input]:
    """JSON that Java's converters wrote for random objects of its own, in the release's names.

    Args:
        pairs: messages with a JSON converter. `seeds`: one object of each pair for each seed.
    """
    work = [(pair, seed) for pair in pairs for seed in seeds]
    answers = oracle.ask(pair.question("make", seed=seed, firstTag=100) for pair, seed in work)
    return [(pair, answer["json"], _JAVAS_OWN) for (pair, _), answer in zip(work, answers, strict=True)]


def sound(pair: Pair, seed: int) -> Json:
    """The JSON form of a random value."""
    return to_json(make(pair.ours, pair.our_version, f"json {seed}"), pair.our_version)


def broken(pair: Pair, seed: int) -> tuple[Json, str]:
    """The JSON form of a random value with one place changed, and what was done."""
    random = Random(f"{pair} broken {seed}")
    obj = copy.deepcopy(sound(pair, seed))
    places = list(_places(obj))
    if not places:
        return {"nothing": 1}, "a name that the message does not have"
    holder, key = random.choice(places)
    kind = random.randrange(4) if isinstance(holder, dict) else 0
    if kind == 3:
        del holder[key]
        return obj, f"without {key}"
    if kind == 2:
        holder["unknownField"] = 1
        return obj, "a name that the message does not have"
    wanted = _TEXTS if isinstance(holder[key], str) and random.randrange(4) else _LEAVES + _TEXTS
    holder[key] = random.choice(wanted)
    return obj, f"{key} = {holder[key]!r}"


def _places(obj: Json) -> Iterator[tuple[Any, Any]]:
    for key in list(obj) if isinstance(obj, dict) else range(len(obj)):
        yield obj, key
        if isinstance(obj[key], (dict, list)):
            yield from _places(obj[key])
