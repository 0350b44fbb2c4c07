"""Record batches: what partitions are made of, in log segments and in Produce and Fetch messages.

    for batch in records.read(data):
        batch.base_offset, batch.producer_id, batch.transactional, batch.control
        for record in batch.records:
            record.offset, record.key, record.value, record.headers

`read` also yields a `Damage` for bytes that hold no batch; asking one for its records raises it as `RecordError`.
"""

from kafkawire.records.batch import Batch
from kafkawire.records.builder import build, build_control, build_marker
from kafkawire.records.compression import CODECS, MAX_BATCH_BYTES
from kafkawire.records.control import CONTROL_TYPES, Control
from kafkawire.records.damage import Damage
from kafkawire.records.decoded_message import Decoded
from kafkawire.records.internal_topics import INTERNAL_TOPICS, decode_key, decode_value, decoded
from kafkawire.records.reader import find_batch, read
from kafkawire.records.record import Header, Record
from kafkawire.records.source import Memory, Source

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
    "Record",
    "Source",
    "build",
    "build_control",
    "build_marker",
    "decode_key",
    "decode_value",
    "decoded",
    "find_batch",
    "read",
]
