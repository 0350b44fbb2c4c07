"""The columns that a query uses, for the data source `kafka_segment`.

Spark (4.1 to 4.3) passes filters to a source in Python and no columns: its `PythonScanBuilder` does not implement
`SupportsPushDownRequiredColumns`. It does pass a schema. `QueryColumns.java` is a rule of Spark's optimizer: a batch
read gets the schema of the columns that its query uses, as by Spark's own rules for other sources. Janino compiles it,
which Spark has for the code of its queries.
"""

from __future__ import annotations

import warnings
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]

from kafkawire.spark.errors import first_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_RULE = "QueryColumns"


def use_query_columns(session: SparkSession, source: str, *, always: str) -> None:
    """Let the queries of a session read only the columns that they use. With the setting
    `spark.kafkawire.queryColumns` = `false` they read all, and so they do through Spark Connect, which has no access to
    the optimizer, and in a session whose optimizer takes no rule; then there is a `RuntimeWarning`.

    Args:
        source: the name of a data source whose rows do not depend on its columns.
        always: a column that they do depend on; it is read where the table has it.
    """
    classic = getattr(session, "_jsparkSession", None)
    if classic is None:
        return
    try:
        _inject(session, classic, source, always)
    except Py4JError as error:
        text = f"queries read all columns of {source}, not only those that they use: {first_line(error)}"
        warnings.warn(text, RuntimeWarning, stacklevel=3)


def _inject(session: Any, *arguments: Any) -> None:
    """Compile the rule in the driver's JVM, and add it. It is called by reflection: Py4J keeps methods by the names of
    classes, and each session has a class of its own with this name."""
    jvm, gateway = session._jvm, session.sparkContext._gateway
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(files(__package__).joinpath(f"{_RULE}.java").read_text())
    methods = compiler.getClassLoader().loadClass(_RULE).getDeclaredMethods()
    given = gateway.new_array(jvm.java.lang.Object, len(arguments))
    for place, argument in enumerate(arguments):
        given[place] = argument
    next(one for one in methods if one.getName() == "inject").invoke(None, given)
