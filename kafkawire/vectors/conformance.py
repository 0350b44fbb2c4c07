"""`check`: compares a foreign codec, a program that answers lines of JSON, with the vectors.

The program gets a line on standard input and answers with a line on standard output, in order:

    {"op": "decode", "message": "FetchRequest", "version": 12, "bytes": "00..."}   -> {"json": {...}}
    {"op": "encode", "message": "FetchRequest", "version": 12, "json": {...}}      -> {"bytes": "00..."}

A codec without a JSON form decodes the bytes, encodes the value again, and answers with {"bytes": ...}. It answers
{"unsupported": true} for a message or version that it does not have, {"error": "..."} for what it refuses.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from kafkawire.errors import KafkaWireError
from kafkawire.vectors.vectors import refusals, vectors
from kafkawire.wire.json_form import from_json
from kafkawire.wire.registry import Registry

#: The longest answer that is read.
_MOST_BYTES = 64 << 20
#: Times that the program is started again.
_MOST_ENDS = 2000


class ConformanceError(KafkaWireError):
    """The program does not speak the protocol, or has ended before its first answer."""


class Outcome(msgspec.Struct):
    """What became of the questions about a message in a version.

    Attributes:
        message, version: which one. `passed`, `failed`, `unsupported`: numbers of questions.
        first: the first failure: the operation, the case, and what differs. `cases`: all that failed.
    """

    message: str
    version: int
    passed: int = 0
    failed: int = 0
    unsupported: int = 0
    first: str | None = None
    cases: list[str] = []


class _Codec:
    """The program, which is started again where it ends: a question that it did not survive is a failure."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._answered = self._ends = 0
        self._start()

    def _start(self) -> None:
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self) -> _Codec:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> int:
        """Ends the program; its exit code."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        return int(self._process.returncode)

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """The answer; {"ended": exit code} where the program has ended instead, and was started again."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        line = b""
        with suppress(OSError):
            self._process.stdin.write(json.dumps(question).encode() + b"\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline(_MOST_BYTES)
        if not line.endswith(b"\n"):
            if not self._answered or len(line) == _MOST_BYTES:
                raise ConformanceError(f"the codec gave no line of an answer: {_named(question)}")
            code = self._end()
            self._ends += 1
            if self._ends > _MOST_ENDS:
                raise ConformanceError(f"the codec ended more than {_MOST_ENDS:,} times, now at {_named(question)}")
            self._start()
            return {"ended": code}
        self._answered += 1
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict) or not answer.keys() & {"json", "bytes", "unsupported", "error"}:
            raise ConformanceError(f"the codec's answer is none of the protocol: {_named(question)}: {line[:200]!r}")
        return answer


def _named(question: dict[str, Any]) -> str:
    return f"{question['op']} {question['message']} version {question['version']}"


def check(command: Sequence[str], registry: Registry) -> Iterator[Outcome]:
    """The outcome of each message and version, as soon as it is known.

    Args:
        command: the program and its arguments.
        registry: the messages.

    Raises:
        ConformanceError: the program ended, or answered with something else.
        OSError: the program cannot be started.
    """
    damaged: dict[tuple[str, int], list[Any]] = {}
    for refusal in refusals(registry):
        damaged.setdefault((refusal.message, refusal.version), []).append(refusal)
    outcome: Outcome | None = None
    with _Codec(command) as codec:
        for vector in vectors(registry):
            key = vector.message, vector.version
            if outcome is None or (outcome.message, outcome.version) != key:
                if outcome is not None:
                    yield _with_refusals(outcome, codec, damaged)
                outcome = Outcome(*key)
            asked = {"message": vector.message, "version": vector.version}
            cls = registry.load(registry.entry(vector.message))
            answer = codec.ask({"op": "decode", **asked, "bytes": vector.data.hex()})
            _count(outcome, f"decode {vector.case}", answer, _decoded(cls, answer, vector))
            answer = codec.ask({"op": "encode", **asked, "json": vector.json})
            found = answer.get("bytes")
            same = isinstance(found, str) and found.lower() == vector.data.hex()
            _count(outcome, f"encode {vector.case}", answer, None if same else f"{found}, not {vector.data.hex()}")
        if outcome is not None:
            yield _with_refusals(outcome, codec, damaged)


def _with_refusals(outcome: Outcome, codec: _Codec, damaged: dict[tuple[str, int], list[Any]]) -> Outcome:
    for refusal in damaged.pop((outcome.message, outcome.version), ()):
        asked = {"message": refusal.message, "version": refusal.version, "bytes": refusal.data.hex()}
        answer = codec.ask({"op": "decode", **asked})
        accepted = None if "error" in answer else f"accepted {refusal.data.hex()}, though {refusal.reason}"
        _count(outcome, f"decode {refusal.case}", {} if "error" in answer else answer, accepted)
    return outcome


def _decoded(cls: Any, answer: dict[str, Any], vector: Any) -> str | None:
    """What differs in a decoded value; None where nothing does. Keys may come in any order."""
    found = answer.get("json")
    if "json" not in answer and isinstance(answer.get("bytes"), str):
        same = answer["bytes"].lower() == vector.data.hex()
        return None if same else f"encoded again it is {answer['bytes']}, not {vector.data.hex()}"
    if found == vector.json:
        return None
    try:
        if isinstance(found, dict) and from_json(cls, found, vector.version) == from_json(
            cls, vector.json, vector.version
        ):
            return None
    except KafkaWireError as error:
        return f"{error}"
    return f"{json.dumps(found)}, not {json.dumps(vector.json)}"


def _count(outcome: Outcome, what: str, answer: dict[str, Any], difference: str | None) -> None:
    if answer.get("unsupported"):
        outcome.unsupported += 1
    elif difference is None:
        outcome.passed += 1
    else:
        outcome.failed += 1
        reason = f"refused: {answer['error']}" if "error" in answer else difference
        if "ended" in answer:
            reason = f"the codec ended with exit code {answer['ended']}"
        outcome.cases.append(what)
        outcome.first = outcome.first or f"{what}: {reason}"[:500]
