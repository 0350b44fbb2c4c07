"""Kafka Streams (exactly_once_v2) and MirrorMaker 2 on a cluster: records in transactions have times of events."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from tools.polling import until
from tools.recordings import clients
from tools.recordings.frameworks import Framework, mirror_maker, streams
from tools.recordings.frameworks.processes import SOURCE

#: What both read. Its records are hours old, or ahead of the clock.
INPUT = "events"
#: Streams' output.
OUTPUT = "counts"
#: What both write: topic -> its number of partitions.
WRITTEN = {
    OUTPUT: 1,
    f"counts-{INPUT}-counts-repartition": 1,
    f"counts-{INPUT}-counts-changelog": 1,
    f"{SOURCE}.{INPUT}": 1,
    f"mm2-offsets.{SOURCE}.internal": 1,
}
_SECONDS = 90.0


class EventTime:
    """Both processes."""

    def __init__(self, bootstrap: str, processes: tuple[Framework, ...]) -> None:
        self._bootstrap, self._processes = bootstrap, processes

    def wait(self) -> None:
        """Until something that is committed is in all that they write to."""
        reader = clients.consumer(self._bootstrap, "event-time")
        for topic in WRITTEN:
            until(partial(_is_written, reader, topic), f"records in {topic}", seconds=_SECONDS)
        reader.close()

    def stop(self) -> None:
        """Ends both cleanly."""
        for process in self._processes:
            process.stop()


def _is_written(reader: Consumer, topic: str) -> bool:
    if topic not in reader.list_topics(timeout=_SECONDS).topics:
        return False
    watermarks = reader.get_watermark_offsets(TopicPartition(topic, 0), timeout=_SECONDS)
    return watermarks is not None and watermarks[1] > 1


@contextlib.contextmanager
def event_time(bootstrap: str) -> Iterator[EventTime]:
    """Both, until `EventTime.stop`; at the end of the block at the latest."""
    with (
        tempfile.TemporaryDirectory(prefix="kafkawire-event-time-") as scratch,
        streams(Path(scratch) / "streams", bootstrap, INPUT, OUTPUT) as counting,
        mirror_maker(Path(scratch) / "mirror-maker", bootstrap, INPUT) as mirroring,
    ):
        yield EventTime(bootstrap, (counting, mirroring))
