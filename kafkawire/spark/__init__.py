"""Spark: Kafka's bytes as tables, and the audit of log directories as a PySpark job.

    from kafkawire import spark
    audit = spark.audit(["fleet/"])           # the same answer as that of transactions.audit
    spark.transactions(["fleet/"], session)   # every transaction, as a table

    from kafkawire.spark import register, from_kafka_message, to_kafka_message
    register(session)
    records = session.read.format("kafka_segment").load("kafka-logs/")
    records.select(from_kafka_message("value", "TransactionLogValue", version="prefix"))

Needs the `spark` extra, and Java 17 or newer (or the `spark-jre` extra, which brings one). With PySpark 3.5 and 4.0
there are `from_kafka_message`, `to_kafka_message` and `message_table` only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkawire._first_use import on_first_use
from kafkawire.errors import MissingExtraError
from kafkawire.spark.versions import FUNCTIONS, UnsupportedPySparkError, has_functions_only, too_old

try:
    import pyarrow  # noqa: F401
    import pyspark  # noqa: F401

    _functions_only = has_functions_only()
except UnsupportedPySparkError:
    raise
except ImportError:
    raise MissingExtraError("kafkawire.spark", "spark") from None

if TYPE_CHECKING:
    from kafkawire.spark.auditing.audit_job import audit
    from kafkawire.spark.auditing.audit_tables import TableOutput, audit_tables
    from kafkawire.spark.auditing.share_groups import share_offsets
    from kafkawire.spark.auditing.transaction_table import transactions
    from kafkawire.spark.functions.column_functions import from_kafka_message, message_table, to_kafka_message
    from kafkawire.spark.registration import register
    from kafkawire.spark.session.sessions import local_session, session_on
    from kafkawire.spark.session.shipping import ship
    from kafkawire.spark.sources.topics import read_topic, stream_topic

#: Module -> the names that it defines. Each Python process of Spark imports this package for the one module that it
#: runs.
_NAMES = {
    "auditing.audit_job": "audit",
    "auditing.audit_tables": "TableOutput audit_tables",
    "auditing.share_groups": "share_offsets",
    "auditing.transaction_table": "transactions",
    "functions.column_functions": "from_kafka_message message_table to_kafka_message",
    "registration": "register",
    "session.sessions": "local_session session_on",
    "session.shipping": "ship",
    "sources.topics": "read_topic stream_topic",
}

__all__ = [
    "TableOutput",
    "audit",
    "audit_tables",
    "from_kafka_message",
    "local_session",
    "message_table",
    "read_topic",
    "register",
    "session_on",
    "share_offsets",
    "ship",
    "stream_topic",
    "to_kafka_message",
    "transactions",
]


if not TYPE_CHECKING:  # checkers report names that are not there
    _on_first_use = on_first_use(__name__, _NAMES)

    def __getattr__(name: str) -> Any:
        if _functions_only and name in __all__ and name not in FUNCTIONS:
            raise too_old(name)
        return _on_first_use(name)
