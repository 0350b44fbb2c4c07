"""The installed PySpark, and whether `kafkawire.spark` can use it: older versions and the client alone lack a part."""

from __future__ import annotations

import re
from importlib.util import find_spec

from kafkawire.errors import KafkaWireError

#: The oldest version of PySpark that is supported, and the oldest that has column functions only.
OLDEST, OLDEST_OF_FUNCTIONS = (4, 1), (3, 5)
#: What there is below `OLDEST`.
FUNCTIONS = ("from_kafka_message", "to_kafka_message", "message_table")


class UnsupportedPySparkError(KafkaWireError, ImportError):
    """The installed PySpark is too old, or only the client of Spark Connect."""


def has_functions_only() -> bool:
    """Whether the installed PySpark is one that has column functions and no data sources in Python.

    Raises:
        UnsupportedPySparkError: `kafkawire.spark` cannot work with it.
    """
    import pyspark

    found = re.match(r"(\d+)\.(\d+)", pyspark.__version__)
    version = OLDEST if found is None else (int(found[1]), int(found[2]))
    if version < OLDEST_OF_FUNCTIONS:
        raise UnsupportedPySparkError(
            f"kafkawire.spark needs PySpark {_text(OLDEST)} or newer, or {_text(OLDEST_OF_FUNCTIONS)} for "
            f"{', '.join(FUNCTIONS)}, and {pyspark.__version__} is installed"
        )
    if find_spec("py4j") is None:
        raise UnsupportedPySparkError(
            "kafkawire.spark needs the package pyspark, and only pyspark-client is installed: install pyspark in its "
            "place, which connects to a Spark Connect server (sc://) as well"
        )
    return version < OLDEST


def too_old(name: str) -> UnsupportedPySparkError:
    """What is missing: a public name of `kafkawire.spark`."""
    import pyspark

    return UnsupportedPySparkError(
        f"kafkawire.spark.{name} needs PySpark {_text(OLDEST)} or newer, which reads Arrow from data sources in "
        f"Python; with {pyspark.__version__} there are {', '.join(FUNCTIONS)}"
    )


def _text(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
