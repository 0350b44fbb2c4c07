"""Kafka Streams (exactly_once_v2) and MirrorMaker 2 on a cluster: records in transactions have times of events."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tools.polling import until
from tools.recordings.cluster_clients import end_of
from tools.recordings.frameworks import SOURCE, Framework, mirror_maker, streams

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


def wait_written(bootstrap: str) -> None:
    """Until something that is committed is in all that both write to."""

    def written() -> bool:
        return all(end_of(bootstrap, topic, "read_committed") > 1 for topic in WRITTEN)

    until(written, "records of both", seconds=_SECONDS * len(WRITTEN))


@contextlib.contextmanager
def event_time(bootstrap: str) -> Iterator[tuple[Framework, ...]]:
    """Both, until they are stopped; at the end of the block at the latest."""
    with (
        tempfile.TemporaryDirectory(prefix="kafkawire-event-time-") as scratch,
        streams(Path(scratch) / "streams", bootstrap, INPUT, OUTPUT) as counting,
        mirror_maker(Path(scratch) / "mirror-maker", bootstrap, INPUT) as mirroring,
    ):
        yield counting, mirroring
