"""`TopicIds`: the names of topics by their ids, of the `partition.metadata` files in log directories."""

from __future__ import annotations

import os
from functools import cached_property

from kafkawire.logdir.directory import LogDirectory
from kafkawire.logdir.directory import open as open_directory
from kafkawire.wire.json_form import uuid_text

#: Topics whose ids are read.
MOST = 1_000_000


class TopicIds:
    """Looks up the name of a topic. The files are read at the first look: few commands meet an id.

    Args:
        directory: log directories; partitions beside those that are in it count, too, where the files are here.
    """

    def __init__(self, directory: LogDirectory) -> None:
        self._directory = directory

    def __call__(self, id: str) -> str | None:
        """The name of a topic, by the id in Kafka's form; None where no partition that is here has it."""
        return self._names.get(id)

    @cached_property
    def _names(self) -> dict[str, str]:
        found = _names(self._directory)
        parts = [one.root for one in self._directory.brokers if not self._directory.is_whole(one)]
        if roots := [root for root in parts if os.path.isdir(root)]:
            found = _names(open_directory(*roots)) | found
        return found


def _names(directory: LogDirectory) -> dict[str, str]:
    found: dict[str, str] = {}
    for one in directory.partitions:
        if len(found) >= MOST:
            break
        if one.topic_id is not None:
            found[uuid_text(one.topic_id)] = one.topic
    return found
