"""`Cleaned`: the part of a log from which compaction may have removed offsets. Offsets that are missing elsewhere are
lost.

Kafka's cleaner removes nothing from its first dirty offset on, which it keeps in `cleaner-offset-checkpoint`, and
nothing of the active segment (`LogCleanerManager`). A replica that was made anew has the log as its leader's cleaner
left it: a batch of which records were removed shows that a cleaner has been up to there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kafkawire.logdir.transaction_doubts import NO_OFFSET
from kafkawire.records.columns import Batches


class Cleaned(NamedTuple):
    """How far a cleaner has been in a log. `to`: it may have removed offsets before it, and none from it on.
    `possible`: up to where it may have been once a batch shows that there was one."""

    to: int = 0
    possible: int = NO_OFFSET

    def seen(self, found: Batches) -> Cleaned:
        """The state after some batches: a producer writes a record for each offset of a batch, so a batch with fewer
        was cleaned."""
        removed = (found.record_count <= found.last_offset_delta) | found.delete_horizon
        if not removed.any():
            return self
        last = int(np.max(found.last_offset[removed])) + 1
        return self._replace(to=max(self.to, last, self.possible))

    def joined(self, other: Cleaned) -> Cleaned:
        """This state, joined with that of another part of the log."""
        return self._replace(to=max(self.to, other.to))


#: A log of which no checkpoint says how far a cleaner has been; nor does any batch yet.
NOT_CLEANED = Cleaned()
