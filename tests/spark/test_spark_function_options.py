"""What a call of the column functions may name, without a Spark session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from kafkawire.errors import SchemaError, UnsupportedVersionError
from kafkawire.messages import TransactionLogValue
from kafkawire.spark.functions.column_codec import PREFIX, FunctionOptions, check_version, message_named, read_options


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (None, FunctionOptions("FAILFAST", False, None)),
        ({}, FunctionOptions("FAILFAST", False, None)),
        (
            {"MODE": "permissive", "Errors": "TRUE"},
            FunctionOptions("PERMISSIVE", True, None),
        ),
        ({"mode": "FailFast", "errors": "false"}, FunctionOptions("FAILFAST", False, None)),
    ],
)
def test_option_names_are_case_insensitive(given: dict[str, str] | None, found: FunctionOptions) -> None:
    assert read_options(given) == found


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"modus": "x", "a": "y"}, "unknown options: a, modus; known are mode, errors, schemaDirectory"),
        ({"mode": "dropmalformed"}, "mode is FAILFAST or PERMISSIVE, not DROPMALFORMED"),
        ({"errors": "yes"}, "errors is true or false, not yes"),
    ],
)
def test_rejects_unknown_options_and_values(given: dict[str, str], expected: str) -> None:
    with pytest.raises(ValueError, match=f"^{expected}$"):
        read_options(given)


@pytest.mark.parametrize("version", [0, 1, PREFIX, object()])
def test_accepts_versions_of_the_message(version: Any) -> None:
    """Of a column it is not known before there are values."""
    check_version(TransactionLogValue, version)


def test_rejects_versions_that_the_message_lacks() -> None:
    with pytest.raises(UnsupportedVersionError, match="TransactionLogValue"):
        check_version(TransactionLogValue, 99)
    with pytest.raises(ValueError, match="version is a number, a column or \"prefix\", not 'newest'"):
        check_version(TransactionLogValue, "newest")


def test_finds_messages_of_kafka_and_of_a_schema_directory(tmp_path: Path) -> None:
    assert message_named("TransactionLogValue", None) is TransactionLogValue
    (tmp_path / "Parcel.json").write_text(
        """{"type": "data", "name": "Parcel", "validVersions": "0", "flexibleVersions": "none", "fields": []}"""
    )
    schemas = read_options({"schemaDirectory": str(tmp_path)}).schemas
    found = message_named("Parcel", schemas)
    assert found.spec.name == "Parcel"
    assert message_named("Parcel", read_options({"schemadirectory": str(tmp_path)}).schemas) is found  # compiled once
    with pytest.raises(LookupError, match=r"no message is named 'TransactionLogValue' in .*; there are Parcel"):
        message_named("TransactionLogValue", schemas)
    text = (tmp_path / "Parcel.json").read_text().replace('"0"', '"0-3"')
    (tmp_path / "Parcel.json").write_text(text)  # edited schemas count from the next call on
    edited = message_named("Parcel", read_options({"schemaDirectory": str(tmp_path)}).schemas)
    assert (len(edited.spec.valid_versions), len(found.spec.valid_versions)) == (4, 1)
    with pytest.raises(SchemaError, match="does not exist"):
        read_options({"schemaDirectory": str(tmp_path / "none")})
    with pytest.raises(LookupError, match="Parcel"):
        message_named("Parcel", None)
