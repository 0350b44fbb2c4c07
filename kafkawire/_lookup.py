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

    A name may be one that the message had in an older release. Layouts that only KIP texts proposed
    (`kafkawire.drafts`) are never found here.

    Raises:
        LookupError: no such message, or an api key that several have (they repeat over families and kinds).
    """
    if (name is None) == (api_key is None):
        raise TypeError("lookup takes a name or an api_key")
    if name is not None:
        entry = REGISTRY.entry(name)
    else:
        assert api_key is not None
        entry = REGISTRY.find(api_key, kind, family)
    return REGISTRY.load(entry)
