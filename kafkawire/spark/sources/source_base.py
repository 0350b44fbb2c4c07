"""The base of the data sources: their options, a reader of a list of items in tasks, and how much a stream reads at a
trigger, in the form of PySpark's admission control (from 4.2 on)."""

from __future__ import annotations

import errno
import glob
import json
import os
import re
import warnings
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, ClassVar, Generic, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from kafkawire._java_numbers import INT64, whole_number
from kafkawire.logdir.file_names import is_uri
from kafkawire.logdir.remote import found_at, matching, without_secrets
from kafkawire.spark.errors import without_trace
from kafkawire.spark.session.task_sizing import keep_imports, split_into_tasks
from kafkawire.spark.sources.column_projection import projection, table_schema

Item = TypeVar("Item")

FAILFAST = "FAILFAST"
#: An option of the sources that read tiers.
TIER_KEYS = "tierKeys"
_MODES = ("PERMISSIVE", FAILFAST)
#: Bytes of one part of a large file, by default.
PART_BYTES = 32 << 20
#: Sizes as Spark writes them (`JavaUtils.byteStringAs`).
_SIZE = re.compile(r"(\d+)\s*(?:([kmgtp])b?|b)?", re.ASCII | re.IGNORECASE)
#: Schemes of URIs, as Spark has them, and what pyarrow calls the store.
_SCHEMES = {
    **{one: one for one in ("s3", "gs", "abfss", "abfs", "hdfs", "viewfs", "file")},
    "s3a": "s3",
    "s3n": "s3",
    "gcs": "gs",
}
#: What Spark adds to the options of CREATE TABLE.
_OF_CATALOG = ("owner", "provider")
_BRACES = re.compile(r"\{([^{}]*)\}")
_UNITS = {unit: 1 << 10 * power for power, unit in enumerate("kmgtp", 1)}


class StrictSource(DataSource):
    """A data source that refuses options that it does not have.

    Attributes:
        item_reader: reads its batches.
        case_sensitive: `spark.sql.caseSensitive` of the session, as it is when the source is registered.
        shared, batch_only, stream_only: the names of its options. ignored: of those without an effect here; where there
            are some, others that begin with `kafka.` are, too. ignored_in_batches: of those of streams that a batch
            passes over. synonyms: other names of its options, in lower case.
    """

    item_reader: ClassVar[type[ItemReader[Any]]]
    case_sensitive: ClassVar[bool] = False
    shared: ClassVar[tuple[str, ...]]
    batch_only: ClassVar[tuple[str, ...]] = ()
    stream_only: ClassVar[tuple[str, ...]] = ()
    ignored: ClassVar[tuple[str, ...]] = ()
    ignored_in_batches: ClassVar[tuple[str, ...]] = ()
    synonyms: ClassVar[Mapping[str, str]] = MappingProxyType({})

    @without_trace()
    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))
        self.checked(*self.shared, *self.batch_only, *self.stream_only)

    @without_trace()
    def schema(self) -> StructType:
        options = self.checked(*self.shared, *self.batch_only, *self.stream_only)
        for path in options.paths:  # a missing path is an error of `load`
            if is_uri(path):
                found_at(path)
        table, hidden = self.item_reader.table(options), self.item_reader.hidden(options)
        columns = options.texts("columns") or [name for name in table.names if name not in hidden]
        return table_schema(table, columns, case_sensitive=options.case_sensitive)

    @without_trace()
    def reader(self, schema: StructType) -> ItemReader[Any]:
        known = *self.shared, *self.batch_only, *self.ignored_in_batches
        options = self.checked(*known, what="a batch of ")
        given = [name for name in self.ignored_in_batches if options.text(name) is not None]
        self._pass_over(f"a batch of {self.name()}", given)
        return self.item_reader(schema, options)

    def of_stream(self) -> SourceOptions:
        """The options of a stream."""
        return self.checked(*self.shared, *self.stream_only, what="a stream of ")

    def checked(self, *known: str, what: str = "") -> SourceOptions:
        """The options.

        Raises:
            ValueError: an option that is not among `known`.
        """
        names = {name.lower() for name in known} | {"path", "paths"} | set(self.synonyms)
        others = {name.lower() for name in self.ignored}
        passed = sorted(
            name
            for name in self.options
            if others and (name.lower() in others or name.lower().startswith("kafka.")) and name.lower() not in names
        )
        if not what:
            self._pass_over(f"{self.name()}, which reads files,", passed)
        names |= {name.lower() for name in passed}
        unknown = sorted(name for name in self.options if name.lower() not in names)
        if set(_OF_CATALOG) <= {name.lower() for name in unknown}:
            raise ValueError(
                f"{self.name()} cannot be a table of a catalog: Spark does not pass the options of CREATE TABLE "
                f"to its reads: CREATE TEMPORARY VIEW ... USING {self.name()} OPTIONS (...) takes them"
            )
        if unknown:
            options = ", ".join(sorted(known, key=str.lower))
            raise ValueError(f"{what}{self.name()} has no option {', '.join(unknown)}; the options are {options}")
        given = {name.lower(): value for name, value in self.options.items()}
        for name, of in self.synonyms.items():
            if name in given and of.lower() in given:
                raise ValueError(f"only one of {of}, {name} can be given")
            given |= {of.lower(): given.pop(name)} if name in given else {}
        return SourceOptions(given, case_sensitive=self.case_sensitive)

    def _pass_over(self, what: str, names: Sequence[str]) -> None:
        if names:
            text = f"{what} passes over options without an effect here: {', '.join(names)}"
            warnings.warn(text, RuntimeWarning)


class Task(InputPartition, Generic[Item]):
    """What one task reads."""

    def __init__(self, items: list[Item]) -> None:
        super().__init__(None)
        self.items = items


class ItemReader(DataSourceReader, Generic[Item]):
    """Reads a list of items in tasks with a like number of bytes each, and gives the columns of `schema`, which may be
    fewer than the source has. A source implements `table`, `items`, `size_of` and `batches`.

    Raises:
        ValueError: the source does not have a column of `schema`, or cannot give it that type.
    """

    def __init__(self, schema: StructType, options: SourceOptions) -> None:
        self.options = options
        self.projection = projection(
            schema, self.table(options), case_sensitive=options.case_sensitive, fail_fast=options.fail_fast
        )

    @staticmethod
    @abstractmethod
    def table(options: SourceOptions) -> pa.Schema:
        """All columns that the source has with these options."""

    @staticmethod
    def hidden(options: SourceOptions) -> frozenset[str]:
        """The columns that are read only if the option `columns` or a schema names them."""
        return frozenset()

    @abstractmethod
    def items(self) -> Iterable[Item]:
        """All that is to be read."""

    @abstractmethod
    def size_of(self, item: Item) -> int:
        """Bytes of an item; 0 where it is gone; reading it reports that."""

    @abstractmethod
    def batches(self, items: Iterable[Item], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The rows of some items; called on a worker."""

    @without_trace()
    def partitions(self) -> Sequence[InputPartition]:
        return self.tasks(self.items())

    def tasks(self, items: Iterable[Item]) -> Sequence[InputPartition]:
        """Tasks that read these items."""
        return [Task(share) for share in split_into_tasks(list(items), self.size_of)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, Task):  # Spark makes one partition of nothing out of none
            with without_trace():
                yield from map(self.projection.batch, self.batches(partition.items, self.projection.source))
            keep_imports()


class SourceOptions:
    """The options of a data source; their names are case-insensitive.

    Raises:
        ValueError: an option has an invalid value.
    """

    def __init__(self, given: Mapping[str, str], *, case_sensitive: bool = False) -> None:
        self._given = {name.lower(): value for name, value in given.items()}
        self.case_sensitive = case_sensitive
        # As Spark's Kafka source (`failOnDataLoss`), whose columns have no room for an error.
        usual = FAILFAST if self._given.get("format", "").lower() == "kafka" else _MODES[0]
        mode = self._given.get("mode", usual).upper()
        if mode not in _MODES:
            raise ValueError(f"mode is PERMISSIVE or FAILFAST, not {mode}")
        self.fail_fast = mode == FAILFAST

    def text(self, name: str) -> str | None:
        """The value of an option; None where it is not given."""
        return self._given.get(name.lower())

    @property
    def paths(self) -> list[str]:
        """The paths of `load`; a glob is replaced by its matches.

        Raises:
            ValueError: there is none. OSError: a glob matches nothing.
        """
        given = json.loads(self._given["paths"]) if "paths" in self._given else [self._given.get("path", "")]
        paths = [local(path) for path in given if path]
        if not paths:
            raise ValueError("no path is given: load(path)")
        return [found for path in paths for found in _matched(path)]

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        """The value of an option that has a few; the first is the default."""
        value = self._given.get(name.lower(), choices[0]).lower()
        if value not in choices:
            raise ValueError(f"{name} is {', '.join(choices[:-1])} or {choices[-1]}, not {value}")
        return value

    def several(self, name: str, choices: tuple[str, ...]) -> tuple[str, ...]:
        """Some of the choices, as a list with commas; all by default."""
        given = self._given.get(name.lower())
        found = choices if given is None else tuple(word.strip().lower() for word in given.split(","))
        unknown = sorted(set(found) - set(choices))
        if unknown:
            raise ValueError(f"{name} are some of {', '.join(choices)}, not {', '.join(unknown)}")
        return tuple(choice for choice in choices if choice in found)

    def texts(self, name: str) -> tuple[str, ...]:
        """A list with commas; empty where the option is not given."""
        return tuple(word for word in map(str.strip, (self.text(name) or "").split(",")) if word)

    def numbers(self, name: str) -> tuple[int, ...]:
        """A list of whole numbers with commas."""
        found = [whole_number(word, INT64) for word in self.texts(name)]
        if None in found:
            raise ValueError(f"{name} are whole numbers with commas between, not {shown(self.text(name) or '')}")
        return tuple(number for number in found if number is not None)

    def flag(self, name: str) -> bool:
        """An option that is true or false, false by default."""
        return self.choice(name, ("false", "true")) == "true"

    def number(self, name: str, default: int, *, least: int = 1) -> int:
        """An option that is a whole number.

        Args:
            name: of the option. `default`: where it is not given. `least`: the least number, 1 or 0.
        """
        text = self.text(name)
        if text is None:
            return default
        number = whole_number(text, INT64)
        if number is None or number < least:
            raise ValueError(f"{name} is a {'positive' if least else 'whole'} number, not {shown(text)}")
        return number

    def size(self, name: str, default: int) -> int:
        """An option that is a number of bytes, with a unit or without: 64m is 64 MiB."""
        text = self.text(name)
        if text is None:
            return default
        found = _SIZE.fullmatch(text.strip())
        size = int(found[1][:20]) * _UNITS.get((found[2] or "").lower(), 1) if found else 0
        if not 0 < size <= INT64:
            raise ValueError(f"{name} is a size such as 1000000, 512k, 64m or 1g, not {shown(text)}")
        return size


def shown(text: str) -> str:
    """The value of an option, as an error shows it."""
    return text if len(text) <= 50 else f"{text[:50]}..."


def local(path: str) -> str:
    """A path as this package takes it, from one as Spark takes it: `file:/logs` and `file:///logs` are on this
    machine, `s3a://` is `s3://`; `dbfs:/Volumes/...` and the rest of `dbfs:/` are where Databricks mounts them.

    Raises:
        ValueError: it is of a store that is not known.
    """
    if path.startswith("file:/"):
        return "/" + path.removeprefix("file:").lstrip("/")
    if path.startswith("dbfs:/"):
        place = "/" + path.removeprefix("dbfs:").lstrip("/")
        return place if place.startswith("/Volumes/") else f"/dbfs{place}"
    scheme, mark, rest = path.partition("://")
    if not mark or not is_uri(path):
        return path
    known = _SCHEMES.get(scheme.lower())
    if known is None:
        raise ValueError(
            f"{scheme}:// is no store that kafkawire reads; there are {', '.join(f'{one}://' for one in _SCHEMES)}, "
            "dbfs:/ and paths"
        )
    return f"{known}://{rest}"


def _matched(path: str) -> list[str]:
    """The paths that a glob matches, as Hadoop's globs do (`*`, `?`, `[0-9]`, `{a,b}`); any other path is itself.

    Raises:
        FileNotFoundError: nothing matches, or a path of this machine does not exist.
    """
    if is_uri(path):
        # In a URI, `?` begins the query.
        place, mark, query = path.partition("?")
        if not _BRACES.search(place) and not glob.has_magic(place):
            return [path]
        found = []
        for each in _alternatives(place):
            with suppress(FileNotFoundError):  # another alternative may be there
                found += [f"{one}{mark}{query}" for one in matching(f"{each}{mark}{query}")]
    elif os.path.lexists(path):
        return [path]
    else:
        found = [one for each in _alternatives(path) for one in sorted(glob.glob(each))]
        if not found and not glob.has_magic(path) and not _BRACES.search(path):
            raise FileNotFoundError(errno.ENOENT, "the path does not exist", path)
    if not found:
        raise FileNotFoundError(errno.ENOENT, "nothing matches", without_secrets(path))
    return list(dict.fromkeys(found))


def _alternatives(pattern: str) -> list[str]:
    """A pattern for each alternative in braces, innermost first."""
    found = _BRACES.search(pattern)
    if found is None:
        return [pattern]
    before, after = pattern[: found.start()], pattern[found.end() :]
    return [one for part in found[1].split(",") for one in _alternatives(f"{before}{part}{after}")]


limits: Any
try:
    from pyspark.sql.streaming import datasource as limits
except ImportError:  # PySpark 4.1
    limits = None

FILES, BYTES, OFFSETS = "maxFilesPerTrigger", "maxBytesPerTrigger", "maxOffsetsPerTrigger"
#: option -> the class of its limit, the field with its number
_LIMITS = {
    FILES: ("ReadMaxFiles", "max_files"),
    BYTES: ("ReadMaxBytes", "max_bytes"),
    OFFSETS: ("ReadMaxRows", "max_rows"),
}
_AvailableNow: Any = object if limits is None else limits.SupportsTriggerAvailableNow


class LimitedStream(DataSourceStreamReader, _AvailableNow):  # type: ignore[misc]
    """A stream with a limit by option. With `Trigger.AvailableNow` it reads what is there when the query starts, in as
    many batches as the limit asks for.

    Raises:
        ValueError: two limits, or a limit where PySpark has no admission control.
    """

    def __init__(self, options: SourceOptions, names: Iterable[str]) -> None:
        given = [name for name in names if options.text(name) is not None]
        if len(given) > 1:
            raise ValueError(f"only one of {', '.join(given)} can be given")
        if given and limits is None:
            raise ValueError(f"{given[0]} needs PySpark 4.2 or newer")
        self._limit = None
        for name in given:
            number = options.size(name, 0) if name == BYTES else options.number(name, 0)
            self._limit = getattr(limits, _LIMITS[name][0])(number)

    def getDefaultReadLimit(self) -> Any:
        return limits.ReadAllAvailable() if self._limit is None else self._limit

    @abstractmethod
    def prepareForTriggerAvailableNow(self) -> None:
        """Note what is there."""


def limit_of(limit: object) -> tuple[str, int] | None:
    """The option and the number of a limit of PySpark's; None: no limit."""
    for option, (_, field) in _LIMITS.items():
        if hasattr(limit, field):
            return option, getattr(limit, field)
    return None
