"""Headers: which one precedes each request and response; and whole frames, which Java reads with its headers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kafkawire import frames, lookup
from kafkawire.wire.message import Message
from tools.conformance.comparing import difference
from tools.conformance.making import make
from tools.oracle import Oracle


class HeaderPair(NamedTuple):
    """A request and its response in one version, and the versions of the headers that Java puts before them."""

    api_key: int
    version: int
    request: int
    response: int


class HeaderDifference(NamedTuple):
    """What differs in the frame of one message."""

    message: str
    version: int
    what: str

    def __str__(self) -> str:
        return f"{self.message} v{self.version}: {self.what}"


def check(oracle: Oracle) -> tuple[int, list[HeaderDifference]]:
    """How many frames were compared, and what differs."""
    headers = [HeaderPair(**_snake(item)) for item in oracle.one(op="headers")["headers"]]
    work = [
        (cls, kind, header)
        for header in headers
        for kind in ("request", "response")
        for cls in [lookup(api_key=header.api_key, kind=kind, family="rpc")]
    ]
    # A response's first releases had no message class: what the release cannot read is left to the others.
    listed = {message["name"] for message in oracle.one(op="list")["messages"]}
    work = [item for item in work if listed & {item[0].spec.name, *item[0].spec.aliases}]
    return len(work), list(_versions(work)) + list(_frames(oracle, work, listed))


def _snake(item: dict[str, int]) -> dict[str, int]:
    return {"api_key": item.pop("apiKey"), **item}


def _versions(work: list[tuple[type[Message], str, HeaderPair]]) -> Iterator[HeaderDifference]:
    for cls, kind, header in work:
        rule = frames.request_header_version if kind == "request" else frames.response_header_version
        ours, java = rule(cls, header.version), getattr(header, kind)
        if ours != java:
            yield HeaderDifference(cls.spec.name, header.version, f"header version {ours}, Java's {java}")


def _frames(
    oracle: Oracle, work: list[tuple[type[Message], str, HeaderPair]], listed: set[str]
) -> Iterator[HeaderDifference]:
    """Frames of ours, of which Java reads the header (in the version that it has for it) and then the body."""
    sent = []
    for number, (cls, kind, header) in enumerate(work):
        body: Any = make(cls, header.version, "frame")
        if kind == "request":
            frame = frames.encode_request(body, version=header.version, correlation_id=number, client_id="mé")
        else:
            frame = frames.encode_response(body, version=header.version, correlation_id=number)
        sent.append((body, frame))
    heads = oracle.ask(
        {
            "op": "read",
            "name": "RequestHeader" if kind == "request" else "ResponseHeader",
            "version": getattr(header, kind),
            "bytes": frame[4:].hex(),
        }
        for (_, kind, header), (_, frame) in zip(work, sent, strict=True)
    )
    rest = []
    for number, ((cls, _, header), (_, frame), head) in enumerate(zip(work, sent, list(heads), strict=True)):
        if "error" in head or head["value"].get("correlationId") != number:
            yield HeaderDifference(cls.spec.name, header.version, f"Java reads another header: {head}")
        elif head["value"].get("requestApiKey", header.api_key) != header.api_key:
            yield HeaderDifference(cls.spec.name, header.version, f"Java reads another api key: {head}")
        rest.append(frame[4 + head.get("consumed", 0) :])
    bodies = oracle.ask(
        {
            "op": "read",
            "name": next(iter(listed & {cls.spec.name, *cls.spec.aliases})),
            "version": header.version,
            "bytes": data.hex(),
        }
        for (cls, _, header), data in zip(work, rest, strict=True)
    )
    for (cls, _, header), (body, _), data, answer in zip(work, sent, rest, bodies, strict=True):
        if "error" in answer or answer["consumed"] != len(data):
            yield HeaderDifference(cls.spec.name, header.version, f"Java reads another body: {answer}")
        elif found := difference(body, answer["value"], header.version, older=True):
            yield HeaderDifference(cls.spec.name, header.version, found)
