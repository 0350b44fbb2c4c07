"""`Apis`: what a mock broker answers, by api key: its own handlers, those of a test, and the versions that it offers.

An edited schema gives a class of its own for an api key that a handler knows by Kafka's class. So requests are looked
up by key, and values are made into the other class field by field.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec

from kafkawire.testing.state.call import Handler, Handlers
from kafkawire.wire.message import Message
from kafkawire.wire.registry import Registry

T = TypeVar("T", bound=Message)

#: A request -> its response; None: the broker's own.
Own = Callable[[Any], "Message | Awaitable[Message | None] | None"]
#: A request and the broker's own response -> the response that is sent.
Change = Callable[[Any, Any], Message]


def key_of(kind: type[Message]) -> int:
    """The api key of a request's class. Raises ValueError for what is no request."""
    spec = kind.spec
    if spec.kind != "request" or spec.api_key is None:
        raise ValueError(f"{spec.name} is a {spec.kind}, no request with an api key")
    return spec.api_key


def is_of(kind: type[Message] | None, body: Message) -> bool:
    """Whether a request is one of a class, or of the class of its api key. `kind`: None is for every request."""
    return kind is None or type(body) is kind or (key_of(kind) == body.spec.api_key and kind.spec.family == "rpc")


def made(value: Message, cls: type[T]) -> T:
    """The value as one of another class of the same message: fields of the same names; others get their defaults.

    Raises:
        msgspec.ValidationError: a field has another type in that class.
    """
    return value if isinstance(value, cls) else msgspec.convert(value, cls, from_attributes=True)


class _Control(NamedTuple):
    """A handler of a test; `node`: for the requests to this one; `times`: how many it still answers."""

    handler: Own
    node: int | None
    times: int | None


class Apis:
    """See the module.

    Args:
        handlers: the broker's own: Kafka's class -> what answers it, and in which versions.
        release: api key -> the versions of the release that the broker is.
        registry: the messages that are read and written.

    Attributes:
        versions: api key -> the versions that are offered.
    """

    def __init__(self, handlers: Handlers, release: Mapping[int, range], registry: Registry) -> None:
        self.registry = registry
        self._release = release
        self._handlers = {key_of(kind): (kind, *answer) for kind, answer in handlers.items()}
        self._own: dict[int, list[_Control]] = {}
        self._changes: dict[int, Change] = {}
        self.versions = self._offered()

    def on(self, kind: type[Message], handler: Own, *, node: int | None = None, times: int | None = None) -> None:
        """Adds a handler of a test, see `MockBroker.on`."""
        if times is not None and times < 1:
            raise ValueError(f"times={times}: a number of requests, at least 1, or None for all of them")
        if self.registry.rpc(key_of(kind), "request") is not kind:
            raise ValueError(f"{kind.spec.name} with api key {kind.spec.api_key} is not in the broker's registry")
        self._own.setdefault(key_of(kind), []).insert(0, _Control(handler, node, times))
        self.versions = self._offered()

    def change(self, kind: type[Message], change: Change) -> None:
        """Adds a change of the broker's own responses, see `MockBroker.change`."""
        if key_of(kind) not in self._handlers:
            raise ValueError(f"the broker has no answer of its own to {kind.spec.name}; use `on`")
        self._changes[key_of(kind)] = change

    def _offered(self) -> dict[int, range]:
        offered = {}
        for key, (kind, _, known) in self._handlers.items():
            found = self.registry.rpc(key, "request")
            if found is not None and key in self._release:
                offered[key] = _offered(known, self._release[key], kind.spec.valid_versions, found.spec.valid_versions)
        for key in self._own:
            found = self.registry.rpc(key, "request")
            assert found is not None
            offered[key] = found.spec.valid_versions
        return {key: their for key, their in offered.items() if their}

    async def own(self, body: Message, node: int = 1) -> Message | None:
        """What the handlers of the test answer, the last one first; None where they leave the request to the broker."""
        listed = self._own.get(body.spec.api_key or 0, [])
        for control in tuple(listed):
            if control not in listed or control.node not in (None, node):
                continue
            found: Any = control.handler(body)
            answer: Message | None = await found if inspect.isawaitable(found) else found
            if answer is not None:
                if control.times is not None and control in listed:
                    at = listed.index(control)
                    listed[at : at + 1] = [] if control.times == 1 else [control._replace(times=control.times - 1)]
                return answer
        return None

    def handler(self, body: Message) -> tuple[Handler, Message] | None:
        """The broker's own handler, and the request as that knows it; None where there is none."""
        found = self._handlers.get(-1 if body.spec.api_key is None else body.spec.api_key)
        return None if found is None else (found[1], made(body, found[0]))

    def changed(self, body: Message, response: Message) -> Message:
        """The broker's own response, as a test changes it."""
        change = self._changes.get(body.spec.api_key or 0)
        return response if change is None else change(body, self.response(body, response))

    def response(self, body: Message, response: Message) -> Message:
        """A response to a request, as one of the class of the registry."""
        key = response.spec.api_key
        cls = None if key is None else self.registry.rpc(key, "response")
        return response if cls is None or key != body.spec.api_key else made(response, cls)


def _offered(handled: range, released: range, shipped: range, stated: range) -> range:
    """The versions of one api.

    Args:
        handled: the versions that the handler knows. `released`: those of the release.
        shipped: those of Kafka's message. `stated`: those of the registry's, which an edited schema may have raised.
    """
    last = min(handled.stop, released.stop)
    # Versions that an edit adds follow Kafka's newest: they are offered where that is.
    stop = stated.stop if last == shipped.stop else min(last, stated.stop)
    return range(max(handled.start, released.start, stated.start), stop)
