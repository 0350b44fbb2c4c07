"""Frameworks on Kafka's Java clients: Kafka Streams, MirrorMaker 2, Connect and Spring, each as a process.

Their jars are fetched with Maven. `python -m tools.recordings.frameworks NAME BOOTSTRAP TOPIC RECORDS` runs one
until it has processed so many records.
"""

from .processes import Framework, connect, mirror_maker, streams

__all__ = ["Framework", "connect", "mirror_maker", "streams"]
