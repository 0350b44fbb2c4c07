"""One Spark schema for all versions of a message, which Arrow and Spark write alike."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import StructType

import kafkawire
from kafkawire.messages import FetchRequest, TransactionLogValue
from kafkawire.spark.functions.column_codec import ERROR, arrow_type, commented, spark_schema


@pytest.mark.slow
def test_arrow_and_spark_agree_on_every_message() -> None:
    for name in kafkawire.messages.__all__:
        spec = kafkawire.lookup(name).spec
        for errors in (False, True):
            assert to_arrow_type(spark_schema(spec, errors=errors)) == arrow_type(spec, errors=errors), name


def test_a_schema() -> None:
    assert spark_schema(TransactionLogValue.spec).simpleString() == (
        "struct<producer_id:bigint,previous_producer_id:bigint,next_producer_id:bigint,producer_epoch:smallint,"
        "next_producer_epoch:smallint,transaction_timeout_ms:int,transaction_status:tinyint,"
        "transaction_partitions:array<struct<topic:string,partition_ids:array<int>>>,"
        "transaction_last_update_timestamp_ms:bigint,transaction_start_timestamp_ms:bigint,"
        "client_transaction_version:smallint>"
    )
    assert isinstance(spark_schema(FetchRequest.spec), StructType)
    assert spark_schema(TransactionLogValue.spec, errors=True).fieldNames()[-1] == ERROR


def test_fields_have_their_meaning_as_comment() -> None:
    spec = TransactionLogValue.spec
    schema = commented(spark_schema(spec, errors=True), spec)
    for field in spec.fields:
        assert schema[field.attribute].metadata == {"comment": field.about}
    nested = schema["transaction_partitions"].dataType.elementType
    assert nested["topic"].metadata == {
        "comment": spec.field("transaction_partitions").struct.spec.field("topic").about
    }
    assert schema[ERROR].metadata == {}
