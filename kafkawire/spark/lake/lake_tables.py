"""Tables of Delta and Iceberg to which a run appends once: the commit of the rows holds how far they come.

Progress is in the commit's own metadata (Delta: `userMetadata`, Iceberg: a property of the snapshot), so that rows and
progress become visible together or not at all. Of two runs that begin from the same progress one commits: Delta's
`txnAppId` and `txnVersion` conflict, and Iceberg validates that no files were added to the snapshot that the run began
from.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import msgspec
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as F

from kafkawire.logdir.file_names import is_uri
from kafkawire.spark.errors import SparkError, first_line
from kafkawire.spark.sources.source_base import local

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PROPERTY = "kafkawire.progress"
#: The numbers of commits of a Delta table that are searched, in turn, until one has progress; None: all.
_HISTORY = (20, 1000, None)


class Progress(msgspec.Struct, frozen=True):
    """How far a table comes.

    Attributes:
        run: identifies the run that committed it.
        offsets: topic -> partition -> the offset after the last one that was read.
        cluster: the id of the cluster; None where no log directory has one.
        topic_ids, epochs: topic -> partition -> the id of the topic, and the leader epoch of the last record before the
            offset, where they are known.
        application, number: Delta's `txnAppId` and `txnVersion`.
    """

    run: str
    offsets: dict[str, dict[int, int]]
    cluster: str | None = None
    topic_ids: dict[str, dict[int, str]] = {}
    epochs: dict[str, dict[int, int]] = {}
    application: str = ""
    number: int = 0

    @classmethod
    def read(cls, text: str | None) -> Progress | None:
        """The progress in the metadata of a commit; None where the commit has none, as one of another program.

        Raises:
            SparkError: it is no progress that this version knows. Without it all would be appended once more.
        """
        try:
            held = msgspec.json.decode(text or "{}", type=dict[str, msgspec.Raw]).get(_PROPERTY)
        except msgspec.MsgspecError:
            return None
        try:
            return None if held is None else msgspec.json.decode(held, type=cls)
        except msgspec.MsgspecError as error:
            raise SparkError(f"{_PROPERTY} in the metadata of a commit cannot be read: {error}") from None

    def text(self) -> str:
        """The form that `read` reads."""
        return msgspec.json.encode({_PROPERTY: self}).decode()


class LakeTable(ABC):
    """A table, by its name for SQL."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        self.spark = spark
        self.name = name

    def create(self, columns: str) -> None:
        """Create the table, by topic, if it does not exist. `columns`: as SQL writes them."""
        if not self._exists():
            provider = type(self).__name__.removesuffix("Table").lower()
            self.spark.sql(
                f"CREATE TABLE IF NOT EXISTS {self.name} ({columns}) USING {provider} PARTITIONED BY (topic)"
            )

    def _exists(self) -> bool:
        try:
            return bool(self.spark.table(self.name).columns)
        except AnalysisException:
            return False

    @abstractmethod
    def progress(self) -> Progress | None:
        """The progress of the newest commit that has some; None where none has. What it shows is what `append` goes on
        from."""

    @abstractmethod
    def append(self, rows: DataFrame, progress: Progress) -> None:
        """Append rows and progress in one commit, unless there is newer progress.

        Raises:
            SparkError: another commit came between; nothing was appended.
        """


class DeltaTable(LakeTable):
    """See the module."""

    application, number = "", 0

    def progress(self) -> Progress | None:
        for limit in _HISTORY:
            history = self._history(limit)
            newest = valid = history[0].version
            for commit in history:
                if commit.version > valid:
                    continue  # undone by RESTORE
                found = Progress.read(commit.userMetadata)
                if found is not None and valid == newest:
                    self.application, self.number = found.application, found.number
                    return found
                # Numbers that were used before a RESTORE, or are forgotten, may not come again.
                self.application, self.number = f"kafkawire-{newest}", 0
                if found is not None:
                    return found
                if commit.operation == "RESTORE":
                    valid = min(valid, int(commit.operationParameters.get("version") or valid))
            if limit is None or len(history) < limit:
                break
        return None

    def _history(self, limit: int | None) -> list[Any]:
        text = f"DESCRIBE HISTORY {self.name}" + ("" if limit is None else f" LIMIT {limit}")
        return self.spark.sql(text).select("version", "operation", "operationParameters", "userMetadata").collect()

    def append(self, rows: DataFrame, progress: Progress) -> None:
        progress = msgspec.structs.replace(progress, application=self.application, number=self.number + 1)
        options = {
            "txnAppId": progress.application,
            "txnVersion": str(progress.number),
            "userMetadata": progress.text(),
        }
        try:
            rows.writeTo(self.name).options(**options).append()
        except PySparkException as error:
            if "CONCURRENT_TRANSACTION" not in str(error) and "ConcurrentTransactionException" not in str(error):
                raise
            raise _conflict(self.name) from None
        found = self.progress()
        if found is None or found.run != progress.run:  # Delta leaves out a number that it has, without an error
            raise _conflict(self.name)


class IcebergTable(LakeTable):
    """See the module."""

    snapshot: int | None = None

    def progress(self) -> Progress | None:
        self.spark.sql(f"REFRESH TABLE {self.name}")
        main = self.spark.sql(f"SELECT snapshot_id FROM {self.name}.refs WHERE name = 'main'").collect()
        self.snapshot = main[0].snapshot_id if main else None
        found = self.spark.sql(
            f"SELECT summary['{_PROPERTY}'] AS text FROM {self.name}.history JOIN {self.name}.snapshots "
            f"USING (snapshot_id) WHERE is_current_ancestor AND summary['{_PROPERTY}'] IS NOT NULL "
            "ORDER BY made_current_at DESC LIMIT 1"
        ).collect()
        return Progress.read(found[0].text) if found else None

    def append(self, rows: DataFrame, progress: Progress) -> None:
        options = {
            f"snapshot-property.{_PROPERTY}": progress.text(),
            "isolation-level": "serializable",
            # Rows of a topic stay with the tasks that read them.
            "distribution-mode": "none",
            "fanout-enabled": "true",
        }
        if self.snapshot is not None:
            options["validate-from-snapshot-id"] = str(self.snapshot)
        try:
            # Overwriting nothing is an append with a validation.
            rows.writeTo(self.name).options(**options).overwrite(F.lit(False))
        except Exception as error:
            if "Found conflicting files" not in str(error):
                raise
            raise _conflict(self.name) from None


FORMATS: dict[str, type[LakeTable]] = {"delta": DeltaTable, "iceberg": IcebergTable}


def lake_table(spark: SparkSession, table: str, provider: str) -> LakeTable:
    """A table by its name in a catalog, or by its path.

    Args:
        table: with a `/`: a path or a URI.
        provider: one of `FORMATS`.

    Raises:
        ValueError: there is no such format.
    """
    kind = FORMATS.get(provider)
    if kind is None:
        raise ValueError(f"format is {' or '.join(FORMATS)}, not {provider}")
    if "/" not in table:
        return kind(spark, table)
    table = local(table)
    path = table if is_uri(table) else os.path.abspath(table)
    if kind is DeltaTable:
        return kind(spark, f"delta.`{path}`")
    # Iceberg appends with a validation to tables of catalogs only: one whose warehouse is the folder above.
    warehouse, name = posixpath.split(path.rstrip("/"))
    catalog = "kafkawire_" + hashlib.sha256(warehouse.encode()).hexdigest()[:12]
    for key, value in {"": "org.apache.iceberg.spark.SparkCatalog", ".type": "hadoop", ".warehouse": warehouse}.items():
        try:
            spark.conf.set(f"spark.sql.catalog.{catalog}{key}", value)
        except PySparkException as error:
            raise SparkError(f"the session takes no catalog for {path}: {first_line(error)}") from None
    return kind(spark, f"{catalog}.`{name}`")


def _conflict(name: str) -> SparkError:
    return SparkError(f"{name} has a commit that came in between; nothing was appended: run again")
