"""Headers: which one precedes each request and response; and whole frames, which Java reads with its headers."""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import Any, NamedTuple

from kafkawire import frames, lookup
from kafkawire.wire.message import Message
from tools.conformance.comparing import difference
from tools.conformance.making import make
from tools.conformance.verdict import Verdict
from tools.oracle import Oracle


class _Sent(NamedTuple):
    """A frame of ours: its message, the versions of its body and of the header that Java puts before it."""

    cls: type[Message]
    name: str  # the release's
    kind: str
    api_key: int
    version: int
    header: int
    body: Any
    frame: bytes


def check(oracle: Oracle, left_out: Set[tuple[str, int]] = frozenset()) -> Iterator[Verdict]:
    """A verdict on each frame. `left_out`: messages and versions that the release lays out otherwise: not judged."""
    sent = list(_sent(oracle))
    heads = list(
        oracle.ask(
            {
                "op": "read",
                "name": f"{each.kind.capitalize()}Header",
                "version": each.header,
                "bytes": each.frame[4:].hex(),
            }
            for each in sent
        )
    )
    rest = [each.frame[4 + head.get("consumed", 0) :] for each, head in zip(sent, heads, strict=True)]
    bodies = oracle.ask(
        {"op": "read", "name": each.name, "version": each.version, "bytes": data.hex()}
        for each, data in zip(sent, rest, strict=True)
    )
    for number, (each, head, data, answer) in enumerate(zip(sent, heads, rest, bodies, strict=True)):
        judged = (each.cls.spec.name, each.version) not in left_out
        wrong = "; ".join(_problems(number, each, head, data, answer)) if judged else ""
        yield Verdict(f"{each.cls.spec.name} v{each.version}", wrong=wrong or None)


def _sent(oracle: Oracle) -> Iterator[_Sent]:
    """Frames of all requests and responses, with their numbers as correlation ids."""
    listed = {message["name"] for message in oracle.one(op="list")["messages"]}
    number = 0
    for header in oracle.one(op="headers")["headers"]:
        for kind in ("request", "response"):
            cls = lookup(api_key=header["apiKey"], kind=kind, family="rpc")
            # A response's first releases had no message class: what the release cannot read is left to the others.
            for name in sorted(listed & {cls.spec.name, *cls.spec.aliases})[:1]:
                version, body = header["version"], make(cls, header["version"], "frame")
                if kind == "request":
                    frame = frames.encode_request(body, version=version, correlation_id=number, client_id="mé")
                else:
                    frame = frames.encode_response(body, version=version, correlation_id=number)
                yield _Sent(cls, name, kind, header["apiKey"], version, header[kind], body, frame)
                number += 1


def _problems(number: int, each: _Sent, head: dict[str, Any], data: bytes, answer: dict[str, Any]) -> Iterator[str]:
    """What Java reads otherwise: the header, in the version that it has for it, and then the body."""
    rule = frames.request_header_version if each.kind == "request" else frames.response_header_version
    if (ours := rule(each.cls, each.version)) != each.header:
        yield f"header version {ours}, Java's {each.header}"
    if "error" in head or head["value"].get("correlationId") != number:
        yield f"Java reads another header: {head}"
    elif head["value"].get("requestApiKey", each.api_key) != each.api_key:
        yield f"Java reads another api key: {head}"
    if "error" in answer or answer["consumed"] != len(data):
        yield f"Java reads another body: {answer}"
    elif found := difference(each.body, answer["value"], each.version, older=True):
        yield found
