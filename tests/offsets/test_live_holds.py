"""What a partition holds by fetched batches is what its copy holds."""

from __future__ import annotations

from kafkawire import logdir
from kafkawire.offsets.live_holds import LiveHolds
from kafkawire.offsets.replica import replicas
from kafkawire.offsets.share_fates import held
from kafkawire.records import Batch
from kafkawire.share_groups.record_fates import UNREAD
from tools.recordings.archive import unpacked


def test_a_fetched_log_holds_what_its_copy_holds() -> None:
    """Transactions of every outcome, compaction, DeleteRecords: of each partition, and of a part of it."""
    seen: set[str] = set()
    directory = logdir.open(str(unpacked("every-offset") / "node-3"))
    for name in ("mixed", "hanging", "compacted", "deleted", "retained", "repeated"):
        (one,) = replicas(directory, name, 0)
        bounds = one.bounds
        live = LiveHolds(bounds.log_start_offset)
        batches = [item for file in one.partition.segments for item in file.batches() if isinstance(item, Batch)]
        for number, batch in enumerate(batches):
            if number == len(batches) // 2:
                # What is not fetched yet is unread, and nothing is made up of it.
                part = list(live.held(bounds.high_watermark))
                assert part[-1].what == UNREAD
                assert part[-1].end == bounds.high_watermark
            if batch.last_offset >= bounds.log_start_offset:
                live.take(batch)
        expected = list(held(one.runs(0, bounds.high_watermark), bounds.high_watermark))
        assert list(live.held(bounds.high_watermark)) == expected, name
        seen |= {row.what for row in expected}
    assert {"record", "aborted", "open", "no_record", "deleted"} <= seen
