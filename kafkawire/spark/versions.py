"""Which PySpark there is: `kafkawire.spark` imports names that older ones, and the client alone, do not have."""

from __future__ import annotations

import re
from importlib.util import find_spec

from kafkawire.errors import KafkaWireError

#: The oldest version of PySpark that is supported.
OLDEST = (4, 1)


class UnsupportedPySparkError(KafkaWireError, ImportError):
    """The installed PySpark is too old, or only the client of Spark Connect."""


def check_pyspark() -> None:
    """Check the PySpark that is installed.

    Raises:
        UnsupportedPySparkError: `kafkawire.spark` cannot work with it.
    """
    import pyspark

    found = re.match(r"(\d+)\.(\d+)", pyspark.__version__)
    if found is not None and (int(found[1]), int(found[2])) < OLDEST:
        raise UnsupportedPySparkError(
            f"kafkawire.spark needs PySpark {OLDEST[0]}.{OLDEST[1]} or newer, which has arrow_udf, and "
            f"{pyspark.__version__} is installed"
        )
    if find_spec("py4j") is None:
        raise UnsupportedPySparkError(
            "kafkawire.spark needs the package pyspark, and only pyspark-client is installed: install pyspark in its "
            "place, which connects to a Spark Connect server (sc://) as well"
        )
