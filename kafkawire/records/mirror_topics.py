"""The topics of MirrorMaker 2, by the names of its default replication policy, and the messages in their records.

`mm2-offset-syncs.<target>.internal` in the source cluster, `<source>.checkpoints.internal` in the target cluster. Java:
`OffsetSync`, `Checkpoint`.
"""

from __future__ import annotations

import re
from functools import lru_cache

from kafkawire.embedded import (
    MirrorCheckpointKey,
    MirrorCheckpointValue,
    MirrorOffsetSyncKey,
    MirrorOffsetSyncValue,
)
from kafkawire.records.decoded_message import MessageFormat, RecordMessages

_OF_TOPICS = (
    (re.compile(r"mm2-offset-syncs\..+\.internal"), RecordMessages(
        key=MessageFormat(MirrorOffsetSyncKey, 0), value=MessageFormat(MirrorOffsetSyncValue, 0)
    )),
    (re.compile(r".+\.checkpoints\.internal"), RecordMessages(
        key=MessageFormat(MirrorCheckpointKey, 0), value=MessageFormat(MirrorCheckpointValue, None)
    )),
)  # fmt: skip


@lru_cache(maxsize=1024)
def mirror_messages(topic: str | None) -> RecordMessages | None:
    """The messages of a topic of MirrorMaker; None for any other topic."""
    for pattern, messages in _OF_TOPICS:
        if topic is not None and pattern.fullmatch(topic):
            return messages
    return None
