"""The batches that kafka-python of any release builds, of each magic and codec: base64, one a line."""

import base64

from kafka import codec
from kafka.record import MemoryRecordsBuilder

HAVE = {0: True, 1: codec.has_gzip(), 2: codec.has_snappy(), 3: codec.has_lz4()}
HAVE[4] = getattr(codec, "has_zstd", lambda: False)()
THEN = 1_700_000_000_000

for magic in (0, 1, 2):
    for number, present in HAVE.items():
        if not present or (number == 4 and magic < 2):
            continue
        for count in (1, 2, 30, 300):
            if magic < 2 and not number and count > 1:
                continue  # each message is a batch
            builder = MemoryRecordsBuilder(magic, number, 1 << 20)
            for i in range(count):
                headers = [("h", b"x" * (i % 3))] if magic == 2 and i % 4 == 0 else []
                key = None if i % 5 == 3 else b"key-%d" % i
                value = None if i % 7 == 4 else b"value %d of many, much alike" % i
                builder.append(THEN + i if magic else None, key, value, headers)
            builder.close()
            print(base64.b64encode(bytes(builder.buffer())).decode())
