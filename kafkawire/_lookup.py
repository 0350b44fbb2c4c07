"""`lookup`: a Kafka message's class by its name or its api key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkawire.messages import REGISTRY

if TYPE_CHECKING:
    from kafkawire.wire.message import Message


def lookup(
    name: str | None = None, *, api_key: int | None = None, kind: str | None = None, family: str | None = None
) -> type[Message]:
    """The class of a Kafka message: `lookup("FetchRequest")` or `lookup(api_key=1, kind="request", family="rpc")`.

    Drafts (`kafkawire.drafts`) are not found here.

    Args:
        name: the message's name in its schema, or the name that it had in an older release.
        api_key: the api key, where no name is given.
        kind: of the message with this api key: `request`, `response`, `key`, `value`, ...
        family: the namespace of the api key: `rpc`, `transaction`, ...

    Raises:
        LookupError: no message has the name or the api key, or several have the api key (api keys repeat over families
            and kinds).
        TypeError: neither a name nor an api key is given, or both are.
    """
    if (name is None) == (api_key is None):
        raise TypeError("lookup takes a name or an api_key")
    if name is not None:
        entry = REGISTRY.entry(name)
    else:
        assert api_key is not None
        entry = REGISTRY.find(api_key, kind, family)
    return REGISTRY.load(entry)
