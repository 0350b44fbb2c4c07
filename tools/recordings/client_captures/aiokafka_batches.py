"""The batches that aiokafka builds, of each magic and codec: base64, one a line."""

import base64

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder

THEN = 1_700_000_000_000

for magic in (0, 1, 2):
    for number in range(5 if magic == 2 else 4):
        for count in (1, 2, 30, 300):
            if (magic < 2 and not number and count > 1) or (magic, number) == (0, 3):
                continue  # each message is a batch; it has no lz4 of magic 0
            if magic < 2:
                builder = LegacyRecordBatchBuilder(magic=magic, compression_type=number, batch_size=1 << 20)
            else:
                builder = DefaultRecordBatchBuilder(
                    magic,
                    number,
                    is_transactional=0,
                    producer_id=-1,
                    producer_epoch=-1,
                    base_sequence=-1,
                    batch_size=1 << 20,
                )
            for i in range(count):
                key = None if i % 5 == 3 else b"key-%d" % i
                value = None if i % 7 == 4 else b"value %d of many, much alike" % i
                builder.append(
                    i, THEN + i if magic else None, key, value, [("h", b"x")] if magic == 2 and i % 4 == 0 else []
                )
            print(base64.b64encode(bytes(builder.build())).decode())
