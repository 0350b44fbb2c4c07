"""What librdkafka of any release sends, in each codec: BOOTSTRAP MAGIC; the broker there keeps it."""

import sys

from confluent_kafka import Producer

THEN = 1_700_000_000_000

bootstrap, magic = sys.argv[1], int(sys.argv[2])
for codec in ("none", "gzip", "snappy", "lz4", "zstd")[: 5 if magic == 2 else 4]:
    for count in (1, 2, 30, 300):
        if magic < 2 and codec == "none" and count > 1:
            continue  # each message is a batch
        producer = Producer(
            {"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 300, "log_level": 2}
        )
        for i in range(count):
            key = None if i % 5 == 3 else b"key-%d" % i
            value = None if i % 7 == 4 else b"value %d of many, much alike" % i
            headers: dict[str, str | bytes | None] | None = {"h": b"x"} if magic == 2 and i % 4 == 0 else None
            producer.produce("batches", value, key, 0, timestamp=THEN + i, headers=headers)
        if producer.flush(20):
            sys.exit(f"magic {magic}, {codec}: not sent")
