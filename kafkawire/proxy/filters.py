"""`Filters`: functions on typed requests and responses, by api key."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from kafkawire import visit
from kafkawire.messages import REGISTRY
from kafkawire.wire.message import Message
from kafkawire.wire.registry import Registry

#: A request -> what is sent on in its place; a response to it, which the client gets at once; None: as it is.
OnRequest = Callable[[Any], "Message | Awaitable[Message | None] | None"]
#: A request and its response -> the response that the client gets; None: as it is.
OnResponse = Callable[[Any, Any], "Message | Awaitable[Message | None] | None"]

_API_VERSIONS = 18


class Filters:
    """Functions on typed requests and responses, by api key.

    Args:
        registry: the messages that are read.
    """

    def __init__(self, registry: Registry = REGISTRY) -> None:
        self.registry = registry
        self._requests: dict[int, list[OnRequest]] = {}
        self._responses: dict[int, list[OnResponse]] = {}
        self._endpoints: dict[int, bool] = {}

    def on_request(self, kind: type[Message], function: OnRequest) -> None:
        self._requests.setdefault(_key(kind), []).append(function)

    def forget(self, kind: type[Message], function: OnRequest) -> None:
        listed = self._requests[_key(kind)]
        listed.remove(function)
        if not listed:
            del self._requests[_key(kind)]

    def on_response(self, kind: type[Message], function: OnResponse) -> None:
        self._responses.setdefault(_key(kind), []).append(function)

    def wants_request(self, api_key: int) -> bool:
        return api_key in self._requests or api_key in self._responses

    def wants_response(self, api_key: int) -> bool:
        """Whether the responses to requests of an api key are read: for a filter, or the addresses in them."""
        if api_key not in self._endpoints:
            cls = self.registry.rpc(api_key, "response")
            named = cls is not None and visit.may_name(cls, visit.ENDPOINT)
            self._endpoints[api_key] = named and api_key != _API_VERSIONS
        return self._endpoints[api_key] or api_key in self._responses

    async def request(self, body: Message) -> Message:
        """The request after all its filters, or the response of one of them."""
        for function in tuple(self._requests.get(body.spec.api_key or 0, ())):
            changed = await _value(function(body))
            if changed is not None:
                body = changed
                if body.spec.kind == "response":
                    break
        return body

    async def response(self, request: Message, body: Message) -> Message:
        """The response after all its filters."""
        for function in self._responses.get(request.spec.api_key or 0, ()):
            body = await _value(function(request, body)) or body
        return body


def _key(kind: type[Message]) -> int:
    if kind.spec.kind != "request" or kind.spec.api_key is None:
        raise ValueError(f"{kind.spec.name} is a {kind.spec.kind}, no request with an api key")
    return kind.spec.api_key


async def _value(found: Any) -> Message | None:
    value: Message | None = await found if inspect.isawaitable(found) else found
    return value
