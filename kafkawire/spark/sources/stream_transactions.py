"""`StreamTransactions`: how the transactions of a log ended, for a stream, which reads only what was appended since the
last trigger.

A stream of committed records is never beyond a last stable offset: every transaction that began before its position
had ended, or begins there. So its position is all that a restarted stream needs: a scan from there on knows what is
open now. (The outcome of data is in the next marker of its producer, wherever the transaction began.)
"""

from __future__ import annotations

import copy

import msgspec

from kafkawire.logdir import Outcomes, Partition
from kafkawire.logdir.data_ranges import table_of
from kafkawire.logdir.isolation import cleaned
from kafkawire.logdir.located_file import Stamp
from kafkawire.logdir.ongoing import last_stable_offset
from kafkawire.logdir.splits import batches_of
from kafkawire.logdir.transaction_doubts import NO_OFFSET
from kafkawire.logdir.transaction_states import TransactionScan
from kafkawire.records import Batch, Damage
from kafkawire.spark.sources.log_points import Header, LogPoints
from kafkawire.spark.sources.segment_positions import segment_ranges


def of_uncommitted(replica: Partition) -> Outcomes:
    """What bounds a reader of all data: no header is read."""
    mark = replica.high_watermark
    return Outcomes(
        start=replica.local_start_offset or 0,
        end=NO_OFFSET,
        high_watermark=NO_OFFSET if mark is None else mark,
        aborted=table_of(()),
        damage=replica.damage,
    )


class StreamTransactions:
    """The scans of the logs of a stream, by the replica's path; see the module."""

    def __init__(self, points: LogPoints) -> None:
        self._points = points
        self._scans: dict[str, _Scan] = {}

    def outcomes(self, replica: Partition, position: int) -> Outcomes | None:
        """The outcomes of a log from a position on; None where headers after it do not tell all: damage, missing
        offsets, batches of magic 0 and 1.

        Args:
            position: an offset that is not beyond a last stable offset.

        Raises:
            FileNotFoundError: a file was removed since it was listed.
        """
        scan = self._scans.pop(replica.path, None)
        try:
            if scan is None or not scan.continues(replica, position, self._points):
                scan = _Scan(replica, position)
            if not scan.extend(replica, self._points):
                return None
        except FileNotFoundError:
            raise
        except OSError:
            return None
        self._scans[replica.path] = scan
        return scan.outcomes(replica, position)


class _Scan:
    def __init__(self, replica: Partition, start: int) -> None:
        self.start = self.end = start
        self._scan = TransactionScan(start, {}, cleaned(replica))
        self._last: tuple[str, Header] | None = None
        self._seen: tuple[str, Stamp | None, int | None] | None = None

    def continues(self, replica: Partition, position: int, points: LogPoints) -> bool:
        """Whether the log is the one that was read so far: the last batch is where it was."""
        if not self.start <= position <= self.end:
            return False
        if self._last is None or self._seen == _seen(replica):
            return True
        found = points.before(replica, self.end)
        before = self._last[1]
        return found is not None and found.last is not None and found.last[1:] == before[1:]

    def extend(self, replica: Partition, points: LogPoints) -> bool:
        """Read on, up to the high watermark; False where that does not tell all."""
        seen = _seen(replica)
        if seen == self._seen and seen[1] is not None:
            return True
        limit = replica.high_watermark
        last = next((one for one in reversed(replica.segments) if limit is None or (one.offset or 0) < limit), None)
        end = self.end if last is None else points.find(last, before=limit).offset
        for asked in segment_ranges(replica, self.end, end, points):
            for item in batches_of(asked.file, asked.begin, asked.end):
                if isinstance(item, Damage) and item.harmless:
                    continue
                if isinstance(item, (Batch, Damage)):
                    return False
                wanted = (item.base_offset >= self.end) & (item.base_offset < end)
                if wanted.any():
                    self._scan.add(item if wanted.all() else item.where(wanted))
        scan = self._scan
        if scan.hidden >= 0 or scan.gap >= 0 or scan.damaged or scan.repeated or scan.problems:
            return False
        self.end, self._seen = max(self.end, end), seen
        found = points.before(replica, self.end)
        self._last = None if found is None or found.last is None else (replica.path, found.last)
        return True

    def outcomes(self, replica: Partition, position: int) -> Outcomes:
        self._scan.aborted = [one for one in self._scan.aborted if one.end > position]
        start, limit = replica.local_start_offset or 0, replica.high_watermark
        mark = self.end if limit is None else min(limit, self.end)
        stable = last_stable_offset(mark, self._scan.unstable().least, start)
        found = copy.deepcopy(self._scan).finish()
        return msgspec.structs.replace(
            found,
            start=start,
            high_watermark=mark,
            last_stable_offset=stable,
            last_stable_at_most=stable,
            damage=replica.damage,
        )


def _seen(replica: Partition) -> tuple[str, Stamp | None, int | None]:
    last = replica.segments[-1]
    return last.path, last.stamp, replica.high_watermark
