"""`errors`: texts and attributes, the base class, and pickling between processes."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from typing import Any

import pytest

from kafkawire import errors
from kafkawire._installation import install_command
from kafkawire.client.errors import BrokerError, ConnectError, TlsError
from kafkawire.errors import (
    DecodeError,
    EncodeError,
    ForeignFileError,
    JsonError,
    MissingExtraError,
    Problem,
    RecordError,
    SchemaError,
    UnsupportedVersionError,
)
from kafkawire.messages import DescribeProducersResponse
from kafkawire.messages.describe_producers_response import PartitionResponse, TopicResponse
from kafkawire.transactions.verdict.abort_rules import Refused

SAMPLE = DescribeProducersResponse(topics=(TopicResponse(name="t", partitions=(PartitionResponse(),)),))
PROBLEMS = [Problem("a.json", "fields[0]", "is wrong"), Problem("b.json", "", "is wrong, too")]


def decode_error() -> DecodeError:
    with pytest.raises(DecodeError) as caught:
        DescribeProducersResponse.decode(SAMPLE.encode(0)[:-8], 0)
    return caught.value


def encode_error() -> EncodeError:
    with pytest.raises(EncodeError) as caught:
        DescribeProducersResponse(throttle_time_ms=1 << 31).encode(0)
    return caught.value


def version_error() -> UnsupportedVersionError:
    with pytest.raises(UnsupportedVersionError) as caught:
        DescribeProducersResponse().encode(1)
    return caught.value


@pytest.mark.slow
@pytest.mark.parametrize("make", [decode_error, encode_error, version_error])
def test_raised_errors_survive_pickling_into_another_process(make: Any) -> None:
    error = make()
    assert isinstance(error, errors.KafkaWireError)
    assert isinstance(error, ValueError)
    assert "DescribeProducersResponse" in str(error)
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(other) is type(error)
        assert str(other) == str(error)
        assert other.args
        assert {k: v for k, v in vars(other).items() if k != "__notes__"} == vars(error)
    program = f"import pickle; print(pickle.loads({pickle.dumps(error)!r}))"
    environment = os.environ | {"PYTHONWARNINGS": "error"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, timeout=60)
    assert (done.stdout.strip(), done.stderr) == (str(error), "")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (DecodeError(expected="a", found="b", offset=5), "at byte 5: expected a, found b"),
        (DecodeError(expected="a", found="b", offset=5, path="x"), "x: at byte 5: expected a, found b"),
        (DecodeError(expected="a", found="b", offset=5, message="M"), "M: at byte 5: expected a, found b"),
        (RecordError(expected="a", found="b", offset=5, path="x", version=2), "x: at byte 5: expected a, found b"),
        (EncodeError("no"), "no"),
        (JsonError("no", path="x", message="M"), "M, x: no"),
        (UnsupportedVersionError("M", 5, range(1, 4)), "M has no version 5; it has 1-3"),
        (SchemaError(PROBLEMS), "a.json: fields[0]: is wrong\nb.json: is wrong, too"),
        (ForeignFileError(["a.py", "b.py"]), "a.py was not generated (2 files in all): nothing is overwritten"),
        (
            MissingExtraError("kafkawire.columns", "arrow"),
            f'kafkawire.columns needs the "arrow" extra: {install_command("arrow")}',
        ),
        (ConnectError("b:9092", "connection refused"), "b:9092: connection refused"),
        (TlsError("b:9092", "no TLS"), "b:9092: no TLS"),
        (
            BrokerError.answering("Fetch", 29, "partition orders-0", "orders", "no"),
            "partition orders-0: TOPIC_AUTHORIZATION_FAILED (no): the principal needs Read on topic orders",
        ),
        (BrokerError(6, "partition orders-0"), "partition orders-0: NOT_LEADER_OR_FOLLOWER"),
        (Refused("live", "it is live"), "it is live"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_error_text_survives_pickling_and_copying(error: errors.KafkaWireError, text: str) -> None:
    assert str(error) == text
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert (type(other), str(other)) == (type(error), text)
        assert (vars(other), other.args) == (vars(error), error.args)
    error.add_note("on broker 1")
    again = pickle.loads(pickle.dumps(error))
    assert (again.__notes__, again.args, str(again)) == (["on broker 1"], error.args, text)


def test_problems_are_compared_by_value() -> None:
    one, other = PROBLEMS
    assert one == Problem("a.json", "fields[0]", "is wrong")
    assert len({one, other, Problem("b.json", "", "is wrong, too")}) == 2
    assert one not in (other, str(one))
    assert repr(one) == "Problem('a.json', 'fields[0]', 'is wrong')"
    error = SchemaError(PROBLEMS)
    assert (error.file, error.path, error.reason) == ("a.json", "fields[0]", "is wrong")


def test_decode_error_has_path_offset_expected_and_found() -> None:
    error = decode_error()
    assert (error.path, error.offset) == ("topics[0].partitions", 7)
    assert (error.message, error.version) == ("DescribeProducersResponse", 0)
    assert str(error) == (
        f"DescribeProducersResponse v0, {error.path}: at byte {error.offset}: "
        f"expected {error.expected}, found {error.found}"
    )


def test_encode_error_has_path_and_reason() -> None:
    error = encode_error()
    assert (error.path, error.version) == ("throttle_time_ms", 0)
    assert str(error) == f"DescribeProducersResponse v0, throttle_time_ms: {error.reason}"


def test_version_error_lists_the_valid_versions() -> None:
    assert str(version_error()) == "DescribeProducersResponse has no version 1; it has 0"
    assert version_error().valid_versions == range(1)


def test_errors_hide_the_exception_of_the_fast_path() -> None:
    # The generated codec fails first, without a reason. Its exception would only confuse.
    assert decode_error().__context__ is None or decode_error().__suppress_context__
    assert encode_error().__context__ is None or encode_error().__suppress_context__


def test_every_error_is_a_kafkawire_error() -> None:
    classes = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)]
    assert len(classes) >= 8
    assert all(issubclass(cls, errors.KafkaWireError) for cls in classes)
