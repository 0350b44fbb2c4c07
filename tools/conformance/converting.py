"""Values that are read in one version and written in another, and the defaults of messages.

This compares which fields a version drops, which it refuses, and the defaults, with Kafka's generated code.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from random import Random
from typing import Any, NamedTuple

from kafkawire import to_json
from kafkawire.errors import KafkaWireError
from kafkawire.wire.message import Struct
from tools.conformance.comparing import difference
from tools.conformance.json_form import as_kafka, first_difference
from tools.conformance.making import make
from tools.conformance.pairing import Pair
from tools.conformance.verdict import Verdict
from tools.oracle import Oracle

#: The one difference that is meant: what cannot be read back, or written as bytes, we do not write as JSON either.
NULL_IN_JSON = "null in JSON where the version has none"


class Conversion(NamedTuple):
    """Bytes of `pair`, to be written again as `to`, a version of the same message."""

    pair: Pair
    to: Pair
    data: bytes


def conversions(pairs: list[Pair], seed: int) -> Iterator[Conversion]:
    """For each version, a random value and another version of the message to write it in."""
    for _, group in groupby(pairs, key=lambda pair: pair.name):
        versions = list(group)
        for pair in versions:
            others = [other for other in versions if other is not pair and other.ours is pair.ours]
            if others:
                random = Random(f"{pair} conversion {seed}")
                value = make(pair.ours, pair.our_version, f"conversion {seed}")
                if random.randrange(2):  # tags that a version does not carry are refused before anything else is seen
                    value = _without_tags(value)
                yield Conversion(pair, random.choice(others), value.encode(pair.our_version))


def _without_tags(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_without_tags, value))
    if not isinstance(value, Struct):
        return value
    values = {field.attribute: _without_tags(getattr(value, field.attribute)) for field in value.spec.fields}
    return type(value)(**values)


def convert_both(oracle: Oracle, work: list[Conversion]) -> Iterator[Verdict]:
    """Converts the same bytes on both sides: both refuse, or write the same bytes and JSON."""
    answers = oracle.ask(item.pair.question("read", item.data, to=item.to.version) for item in work)
    for item, answer in zip(work, answers, strict=True):
        value = item.pair.ours.decode(item.data, item.pair.our_version)
        version = item.to.our_version
        try:
            ours = value.encode(version).hex()
        except KafkaWireError as error:
            ours = str(error)
        java = answer.get("bytes", f"{answer.get('error', answer.get('writeError'))}: {answer.get('text')}")
        what = None
        if ours != java and (": " not in ours or "bytes" in answer):
            what = f"we write {ours}, Java {java}"
        elif item.to.json:
            try:
                form = as_kafka(value, to_json(value, version))
            except KafkaWireError as error:
                if "jsonError" not in answer:
                    null = "null where a value must be" in str(error) and "bytes" not in answer
                    what = NULL_IN_JSON if null else f"only we refuse JSON: {error}"
            else:
                if "jsonError" in answer:
                    what = f"only Java refuses JSON: {answer['jsonError']}"
                elif form != answer["json"]:
                    what = first_difference(form, answer["json"])
        subject = f"{item.pair} as v{item.to.version}"
        yield Verdict(subject, NULL_IN_JSON) if what == NULL_IN_JSON else Verdict(subject, "", what, item.data)


def prefixes(oracle: Oracle, pairs: list[Pair]) -> Iterator[Verdict]:
    """Compares the int16 before a coordinator's keys and values, and before other records, with Java's."""
    work = [pair for pair in pairs if pair.ours.spec.kind not in ("request", "response", "header")]
    values = [make(pair.ours, pair.our_version, "prefix") for pair in work]
    questions = (
        pair.question("prefixed", value.encode(pair.our_version)) for pair, value in zip(work, values, strict=True)
    )
    for pair, value, answer in zip(work, values, oracle.ask(questions), strict=True):
        data = value.encode_prefixed(pair.our_version)
        what = None
        if answer.get("bytes") != data.hex():
            what = f"another prefix: ours {data[:2].hex()}, Java: {answer}"
        else:
            back, version = pair.ours.decode_prefixed(data)
            if version != pair.our_version or back.encode_prefixed(version) != data:
                what = "the prefix is not read back"
        yield Verdict(str(pair), wrong=what, data=data)


def defaults(oracle: Oracle, pairs: list[Pair]) -> Iterator[Verdict]:
    """Compares a message in which nothing is set with that of Java's constructor, in all fields."""
    newest = list({pair.name: pair for pair in pairs}.values())
    answers = oracle.ask({"op": "defaults", "name": pair.name} for pair in newest)
    for pair, answer in zip(newest, answers, strict=True):
        value, theirs = pair.ours(), answer["value"]
        found = None
        for version in pair.ours.spec.valid_versions:
            part = {field.json_name: theirs[field.json_name] for field in value.spec.fields
                    if version in field.versions and field.json_name in theirs}  # fmt: skip
            found = found or difference(value, part, version, older=True)
        yield Verdict(pair.name, wrong=found and f"another default: {found}")
