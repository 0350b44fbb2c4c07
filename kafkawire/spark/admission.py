"""How much a stream reads at a trigger: the options, in the form of PySpark's admission control (from 4.2 on)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader

from kafkawire.spark.sources import SourceOptions

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
