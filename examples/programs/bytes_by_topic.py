"""Bytes of record batches that were produced, by topic: python bytes_by_topic.py trace.pcap"""

import sys
from collections import Counter

from kafkawire import capture
from kafkawire.messages import ProduceRequest


def bytes_by_topic(path: str) -> Counter[str]:
    """Topic -> bytes; by topic id, where requests have no names."""
    found = Counter[str]()
    for exchange in capture.read(path, keep=True).matched():
        if isinstance(exchange.request, ProduceRequest):
            for topic in exchange.request.topic_data:
                found[topic.name or str(topic.topic_id)] += sum(len(one.records or b"") for one in topic.partition_data)
    return found


if __name__ == "__main__":
    for topic, size in bytes_by_topic(sys.argv[1]).most_common():
        print(f"{size:12} {topic}")
