"""A broker's log directory, read from disk without a broker.

```python
directory = logdir.open("kafka-logs/")      # or a folder of several, one partition's directory, one file
for partition in directory.partitions:
    partition.topic, partition.partition, partition.high_watermark
    for batch in partition:                  # headers only, until batch.records is read
        ...
for file in directory.files:
    for row in file:                         # the rows of `kafkawire dump`
        ...
```
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkawire._first_use import on_first_use
from kafkawire.logdir.directory import BrokerDirectory, LogDirectory, Partition, open
from kafkawire.logdir.file_rows import rows_of
from kafkawire.logdir.file_source import FileSource
from kafkawire.logdir.folders import Unreadable
from kafkawire.logdir.log_files import LogFile
from kafkawire.logdir.read_options import Options
from kafkawire.logdir.seek import wanted_files
from kafkawire.logdir.selection import Selection
from kafkawire.logdir.topic_ids import TopicIds

if TYPE_CHECKING:
    from kafkawire.logdir.isolation import OutcomesByFile, outcomes_of
    from kafkawire.logdir.transaction_states import Outcomes
    from kafkawire.logdir.view import View

#: Module -> the names that it defines: what needs NumPy is imported on first use.
_NAMES = {
    "isolation": "OutcomesByFile outcomes_of",
    "transaction_states": "Outcomes",
    "view": "View",
}

__all__ = [
    "BrokerDirectory",
    "FileSource",
    "LogDirectory",
    "LogFile",
    "Options",
    "Outcomes",
    "OutcomesByFile",
    "Partition",
    "Selection",
    "TopicIds",
    "Unreadable",
    "View",
    "open",
    "outcomes_of",
    "rows_of",
    "wanted_files",
]


if not TYPE_CHECKING:  # checkers report names that are not there
    __getattr__ = on_first_use(__name__, _NAMES)
