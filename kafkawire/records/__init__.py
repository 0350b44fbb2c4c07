"""Record batches: reading and writing the content of log segments and of Produce and Fetch messages.

    for batch in records.read(data):
        batch.base_offset, batch.producer_id, batch.transactional, batch.control
        for record in batch.records:
            record.offset, record.key, record.value, record.headers

`read` also yields a `Damage` for bytes that hold no batch; asking one for its records raises it as `RecordError`.

Each name is imported on first use, so that programs that read no batches do not load their codecs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkawire._first_use import on_first_use

if TYPE_CHECKING:
    from kafkawire.records.batch import Batch
    from kafkawire.records.builder import build, build_control, build_marker
    from kafkawire.records.compression import CODECS, MAX_BATCH_BYTES
    from kafkawire.records.control import CONTROL_TYPES, Control
    from kafkawire.records.damage import Damage
    from kafkawire.records.decoded_message import Decoded, MessageFormat, RecordMessages
    from kafkawire.records.internal_topics import INTERNAL_TOPICS, decode_key, decode_value, decoded
    from kafkawire.records.named_values import TopicNames
    from kafkawire.records.reader import find_batch, read
    from kafkawire.records.record import Header, Record
    from kafkawire.records.source import Memory, Source

#: Module -> the names that it defines, which are imported on first use.
_NAMES = {
    "batch": "Batch",
    "builder": "build build_control build_marker",
    "compression": "CODECS MAX_BATCH_BYTES",
    "control": "CONTROL_TYPES Control",
    "damage": "Damage",
    "decoded_message": "Decoded MessageFormat RecordMessages",
    "internal_topics": "INTERNAL_TOPICS decode_key decode_value decoded",
    "named_values": "TopicNames",
    "reader": "find_batch read",
    "record": "Header Record",
    "source": "Memory Source",
}

__all__ = [
    "CODECS",
    "CONTROL_TYPES",
    "INTERNAL_TOPICS",
    "MAX_BATCH_BYTES",
    "Batch",
    "Control",
    "Damage",
    "Decoded",
    "Header",
    "Memory",
    "MessageFormat",
    "Record",
    "RecordMessages",
    "Source",
    "TopicNames",
    "build",
    "build_control",
    "build_marker",
    "decode_key",
    "decode_value",
    "decoded",
    "find_batch",
    "read",
]


if not TYPE_CHECKING:  # checkers report names that are not there
    __getattr__ = on_first_use(__name__, _NAMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
