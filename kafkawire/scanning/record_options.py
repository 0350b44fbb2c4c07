"""`RecordOptions`: which records a scan reads, and how."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, get_args

import msgspec

from kafkawire.logdir.view import IsolationLevel
from kafkawire.records.decoded_message import MessageFormat, RecordMessages
from kafkawire.scanning.record_columns import Decoding, decodings
from kafkawire.scanning.record_filter import RecordFilter
from kafkawire.wire.message import Message

#: What a topic is decoded to: the message in its values, with its version where it has several; or both messages.
Decoded = type[Message] | tuple[type[Message], int | str] | RecordMessages


class RecordOptions(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """How records are read.

    Attributes:
        filter: which ones. `isolation_level`: those that consumers of that level get; None: all data.
        messages: name of a column -> what it decodes.
        show_secrets: values of `__cluster_metadata` with credentials as they are.
    """

    filter: RecordFilter
    isolation_level: IsolationLevel | None = None
    messages: Mapping[str, Decoding] = {}
    show_secrets: bool = False

    def narrowed(self, bounds: Any) -> RecordOptions:
        """The options without the records that bounds exclude.

        Args:
            bounds: a `scanning.polars_source.Bounds`.
        """
        return msgspec.structs.replace(self, filter=bounds.narrow(self.filter))

    def check_topics(self, there: Collection[str]) -> None:
        """Check that the topics that are decoded exist.

        Raises:
            LookupError: one does not.
        """
        for one in self.messages.values():
            for topic in sorted(one.topics - set(there)):
                raise LookupError(f"decode: there is no topic {topic!r}")


def isolation(given: str | None) -> IsolationLevel | None:
    """The isolation level of that name.

    Raises:
        ValueError: there is none.
    """
    for level in get_args(IsolationLevel):
        if given == level:
            found: IsolationLevel = level
            return found
    if given is None:
        return None
    raise ValueError(f"isolation_level: {given!r} is none of {', '.join(get_args(IsolationLevel))}")


def messages_of(given: Mapping[str, Decoded] | None) -> dict[str, Decoding]:
    """What `decode` states, by column.

    Raises:
        TypeError, ValueError: it names no message, or no version of it.
    """
    return decodings({topic: _messages(topic, one) for topic, one in (given or {}).items()})


def _messages(topic: str, given: Decoded) -> RecordMessages:
    if isinstance(given, RecordMessages):
        found = given
    elif isinstance(given, tuple) and len(given) == 2:
        found = RecordMessages(value=_format(topic, given[0], given[1]))
    else:
        message: Any = given
        _check(topic, message)
        valid = message.spec.valid_versions
        if len(valid) != 1:
            raise ValueError(
                f"decode: {topic}: {message.spec.name} has versions {valid[0]} to {valid[-1]}: give "
                f'({message.spec.name}, VERSION), or "prefix" for the int16 in front of each value'
            )
        found = RecordMessages(value=MessageFormat(message, valid[0]))
    if found.key is None and found.value is None:
        raise ValueError(f"decode: {topic} has no message")
    return found


def _format(topic: str, message: Any, version: Any) -> MessageFormat:
    _check(topic, message)
    if version == "prefix":
        return MessageFormat(message, None)
    if not isinstance(version, int) or version not in message.spec.valid_versions:
        raise ValueError(f"decode: {topic}: {message.spec.name} has no version {version!r}")
    return MessageFormat(message, version)


def _check(topic: str, message: Any) -> None:
    if not (isinstance(message, type) and issubclass(message, Message)):
        raise TypeError(f"decode: {topic}: {message!r} is no class of a message")
