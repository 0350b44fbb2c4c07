"""What Kafka accepts and refuses: mutated bytes, read by Java and by us."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kafkawire.errors import DecodeError, EncodeError
from tools.conformance.comparing import difference
from tools.conformance.mutating import Mutant
from tools.conformance.pairing import Pair
from tools.conformance.verdict import Verdict
from tools.oracle import Oracle

#: The classes of differences that are meant, and documented. Anything else is a mistake of ours.
NOT_UTF8 = "bytes that are no UTF-8"
TAG_COUNT = "count of tagged fields"

REFUSED, ACCEPTED = "both refuse", "both accept"


def judge(oracle: Oracle, work: list[tuple[Pair, Mutant]], *, newest: bool) -> Iterator[Verdict]:
    """Reads every mutant on both sides. Releases before 4.4.0 do not look at the number of tagged fields.

    Args:
        work: mutants of messages. `newest`: whether the release is that of our schemas.
    """
    answers = oracle.ask(pair.question("read", mutant.data) for pair, mutant in work)
    for (pair, mutant), answer in zip(work, answers, strict=True):
        yield _judge(pair, mutant, answer, newest)


def _judge(pair: Pair, mutant: Mutant, answer: dict[str, Any], newest: bool) -> Verdict:
    java = f"{answer['error']}: {answer['text']}" if "error" in answer else f"accepts {answer['consumed']} bytes"

    def verdict(kind: str, wrong: str | None = None) -> Verdict:
        return Verdict(f"{pair} {mutant.what}", kind, wrong and f"{wrong} | Java: {java:.200}", mutant.data)

    data, version = mutant.data, pair.our_version
    try:
        ours, end = pair.ours.decode_from(data, version)
    except DecodeError as error:
        if not newest and "error" not in answer and "tagged fields" in error.expected:
            return verdict(TAG_COUNT)
        return verdict(REFUSED) if "error" in answer else verdict("only Java accepts", f"we refuse: {error}")
    if "error" in answer:
        return verdict("only we accept", f"we accept {end} bytes")
    if end != answer["consumed"]:
        return verdict("consumed", f"we read {end} bytes")
    found = difference(ours, answer["value"], version, older=not newest)
    if found:
        return verdict("value", found)
    return verdict(*_written(pair, ours, data[:end], answer))


def _written(pair: Pair, ours: Any, read: bytes, answer: dict[str, Any]) -> tuple[str, str | None]:
    """Compares the bytes that both sides write, and `strict`, which accepts canonical bytes only."""
    version = pair.our_version
    try:
        written: bytes | None = ours.encode(version)
    except EncodeError:
        written = None
    try:
        strict = pair.ours.decode_from(read, version, strict=True)[1] == len(read)
    except DecodeError:
        strict = False
    if strict != (written == read):
        return "strict", f"strict {'accepts' if strict else 'refuses'} what we write as {written and written.hex()}"
    if (written is None) != ("bytes" not in answer):
        return "written", f"only {'we refuse' if written is None else 'Java refuses'} to write the value"
    if written is not None and written.hex() != answer["bytes"]:
        if "�" in str(answer["value"]):
            return NOT_UTF8, None
        return "written", f"we write {written.hex()}, Java {answer['bytes']}"
    return ACCEPTED, None
