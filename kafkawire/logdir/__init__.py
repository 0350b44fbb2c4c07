"""A broker's log directory, read from disk without a broker.

directory = logdir.open("kafka-logs/")      # or a folder of several, one partition's directory, one file
for partition in directory.partitions:
    partition.topic, partition.partition, partition.high_watermark
    for batch in partition:                  # headers only, until batch.records is read
        ...
for file in directory.files:
    for row in file:                         # the rows of `kafkawire dump`
        ...
"""

from kafkawire.logdir.directory import BrokerDirectory, LogDirectory, Partition, Unreadable, open
from kafkawire.logdir.file_rows import rows_of
from kafkawire.logdir.file_source import FileSource
from kafkawire.logdir.log_files import LogFile
from kafkawire.logdir.read_options import Options
from kafkawire.logdir.seek import wanted_files
from kafkawire.logdir.selection import Selection

__all__ = [
    "BrokerDirectory",
    "FileSource",
    "LogDirectory",
    "LogFile",
    "Options",
    "Partition",
    "Selection",
    "Unreadable",
    "open",
    "rows_of",
    "wanted_files",
]
