"""Round trips in both directions: we read what Java writes and write it again, and Java does so with what we write."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kafkawire.errors import KafkaWireError
from tools.conformance.comparing import difference
from tools.conformance.json_form import json_difference
from tools.conformance.making import make
from tools.conformance.pairing import Pair
from tools.conformance.verdict import Verdict
from tools.oracle import Oracle

Answer = dict[str, Any]


class ObjectStyle(NamedTuple):
    """A kind of object and the seed to make it from."""

    name: str
    seed: int

    def __str__(self) -> str:
        return f"{self.name} {self.seed}"


def styles(count: int) -> list[ObjectStyle]:
    """The default object, and `count` others: every fourth is extreme."""
    return [ObjectStyle("default", 0)] + [ObjectStyle("extreme" if i % 4 == 3 else "random", i) for i in range(count)]


def java_first(oracle: Oracle, work: list[tuple[Pair, ObjectStyle]], *, newest: bool) -> Iterator[Verdict]:
    """Java -> ours -> Java for each of `work`.

    Args:
        work: pairs of messages, and how each object is made. `newest`: whether the release is that of our schemas.
    """
    # Other releases do not know all tagged fields that we know: keep clear of their tags.
    tag = 0 if newest else 100
    questions = (pair.question("make", style=style.name, seed=style.seed, firstTag=tag) for pair, style in work)
    for (pair, style), answer in zip(work, oracle.ask(questions), strict=True):
        wrong, data = _read_java(pair, answer, newest), bytes.fromhex(answer.get("bytes", ""))
        yield Verdict(f"{pair} {style} Java -> ours", wrong=wrong, data=data)


def _read_java(pair: Pair, answer: Answer, newest: bool) -> str | None:
    for problem in ("error", "writeError", "jsonError"):
        if problem in answer:
            return f"Java cannot make it: {answer[problem]}: {answer.get('text')}"
    data = bytes.fromhex(answer["bytes"])
    try:
        ours = pair.ours.decode(data, pair.our_version, strict=True)
    except KafkaWireError as error:
        return f"we refuse what Java wrote: {error}"
    found = difference(ours, answer["value"], pair.our_version, older=not newest)
    if found:
        return f"another value: {found}"
    view = pair.ours.decode(memoryview(data), pair.our_version, copy=False)
    found = difference(view, answer["value"], pair.our_version, older=not newest)
    if found:
        return f"another value without a copy: {found}"
    if pair.ours.codec.interpret(data, pair.our_version)[1] != len(data):
        return "the interpreter reads another number of bytes"
    for name, encode in (("codec", pair.ours.encode), ("interpreter", pair.ours.codec.interpret_encode)):
        if encode(ours, pair.our_version) != data:
            return f"the {name} writes other bytes"
    return json_difference(pair, ours, answer, newest)


def ours_first(oracle: Oracle, work: list[tuple[Pair, ObjectStyle]], *, newest: bool) -> Iterator[Verdict]:
    """Ours -> Java -> ours for each of `work`. Args: as of `java_first`."""
    made = [_make(pair, style) for pair, style in work]
    answers = oracle.ask(pair.question("read", data) for (pair, _), (_, data) in zip(work, made, strict=True))
    for (pair, style), (ours, data), answer in zip(work, made, answers, strict=True):
        wrong = _read_by_java(pair, ours, data, answer, newest)
        yield Verdict(f"{pair} {style} ours -> Java", wrong=wrong, data=data)


def _make(pair: Pair, style: ObjectStyle) -> tuple[Any, bytes]:
    if style.name == "default":
        value = pair.ours()
    else:
        value = make(pair.ours, pair.our_version, str(style.seed), extreme=style.name == "extreme")
    return value, value.encode(pair.our_version)


def _read_by_java(pair: Pair, ours: Any, data: bytes, answer: Answer, newest: bool) -> str | None:
    for problem in ("error", "writeError", "jsonError"):
        if problem in answer:
            return f"Java refuses what we wrote: {answer[problem]}: {answer.get('text')}"
    if answer["consumed"] != len(data):
        return f"Java reads {answer['consumed']} of {len(data)} bytes"
    found = difference(ours, answer["value"], pair.our_version, older=not newest)
    if found:
        return f"another value: {found}"
    if answer["bytes"] != data.hex():
        return f"Java writes other bytes: {answer['bytes']}"
    return json_difference(pair, ours, answer, newest)
