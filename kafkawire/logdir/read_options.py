"""`Options`: how the files of a log directory are read as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from kafkawire.logdir.selection import Selection
from kafkawire.records import MAX_BATCH_BYTES
from kafkawire.records.internal_topics import COORDINATOR_TOPICS
from kafkawire.records.mirror_topics import mirror_messages
from kafkawire.records.named_values import TopicNames

if TYPE_CHECKING:
    from kafkawire.logdir.view import View
    from kafkawire.records import RecordMessages

#: What is done with indexes: their entries are shown and checked, only checked against the log, or only looked at as a
#: broker does when it starts.
IndexMode = Literal["show", "verify", "sanity"]


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How files are read.

    Attributes:
        deep: each batch's records after the batch.
        payloads: keys, values and headers of the records, decoded where the topic is internal.
        metadata: the fields around a record's payload; without it, rows of records have their payload only, and control
            batches have no rows.
        messages: topic -> the messages that its keys and values are.
        decode_as: the internal topic as whose records all are decoded; None goes by the topic's name.
        show_secrets: credentials, tokens and passwords of `__cluster_metadata` as they are.
        topic_names: names of topics by their ids, for messages that have ids only.
        indexes: what is done with them (`IndexMode`).
        check_crc: compare every batch's checksum.
        max_batch_bytes: most bytes of a batch, in the file and decompressed; a longer one is damage.
        max_bytes: the number of bytes at a file's beginning in which the batches must lie.
        selection: the rows to return.
        view: how its transactions are seen, of the one partition whose segments are read; None: all rows, without their
            states.
    """

    deep: bool = False
    payloads: bool = False
    metadata: bool = True
    messages: dict[str, RecordMessages] = {}
    decode_as: str | None = None
    show_secrets: bool = False
    topic_names: TopicNames | None = None
    indexes: IndexMode = "show"
    check_crc: bool = True
    max_batch_bytes: int = MAX_BATCH_BYTES
    max_bytes: int | None = None
    selection: Selection = Selection()
    view: View | None = None

    def selection_of(self, topic: str | None) -> Selection:
        """The selection for the records of a topic: in coordinators' topics a key may be an id or a group, in those of
        MirrorMaker a group or a topic."""
        at = 2 if (self.decode_as or topic) in COORDINATOR_TOPICS else 0 if mirror_messages(topic) else None
        if self.selection.key is None or at is None:
            return self.selection
        return msgspec.structs.replace(self.selection, name_at=at)

    def messages_of(self, topic: str | None) -> str | RecordMessages | None:
        """The messages that the records of a topic are decoded as: those that are given for it, or those of an internal
        topic, by its name, or MirrorMaker's; None: by the topic's own name."""
        return self.messages.get(topic or "") or self.decode_as or mirror_messages(topic)

    @property
    def transaction(self) -> bool:
        """Whether rows have the state of their transaction."""
        return self.view is not None and self.view.shown
