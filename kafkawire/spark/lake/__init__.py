"""A lake of committed data: the records of log directories, appended to an Iceberg or Delta table exactly once.

    from kafkawire.spark import lake
    done = lake.append(spark, ["fleet/"], "lake.db.records", format="iceberg")
    done.held                                 # partitions that stopped before their end, and why

Each run goes on where the one before ended, and commits its rows together with how far it came (`lake_tables`): a run
that is killed at any time repeats and loses nothing. The table holds what a read_committed consumer gets: a run stops
at the last stable offset of each partition, and leaves what is still open to later runs.
"""

from __future__ import annotations

from kafkawire.spark.lake.appending import Appended, Held, append

__all__ = ["Appended", "Held", "append"]
