"""`kafkawire decode`."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kafkawire
from kafkawire import frames
from kafkawire.messages import (
    AbortedTxn,
    ApiVersionsRequest,
    ApiVersionsResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    EndTxnMarker,
    TransactionLogKey,
    TransactionLogValue,
)
from tests.cli.runner import Run

REQUEST = DescribeTransactionsRequest(transactional_ids=("a", "b"))
BYTES = REQUEST.encode(version=0)


@pytest.mark.parametrize(
    "text",
    ["0100", "01 00", "01:00", "0x0100", "0x01 0X00", " 01\n00\t", "0x01:0x00"],
)
def test_decodes_hex_arguments(run: Run, text: str) -> None:
    assert json.loads(run("decode", "DescribeTransactionsRequest", "--version", 0, text).out) == {
        "transactionalIds": []
    }


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("0", "error: '0' is neither a file nor hex: an odd number of digits, 1\n"),
        ("01 0g", "error: '01 0g' is neither a file nor hex: character 5 is 'g'\n"),
        ("0x01\u202e", "error: '0x01\\u202e' is neither a file nor hex: character 5 is '\\u202e'\n"),
        ("no/such.bin", "error: 'no/such.bin' is neither a file nor hex: character 1 is 'n'\n"),
        ("100x01", "error: '100x01' is neither a file nor hex: character 4 is 'x'\n"),
        ("01" * 3000 + "g", f"error: '{'01' * 30}'... is neither a file nor hex: character 6001 is 'g'\n"),
    ],
)
def test_rejects_text_that_is_no_hex(run: Run, text: str, error: str) -> None:
    result = run("decode", "DescribeTransactionsRequest", text)
    assert (result.code, result.out, result.err) == (1, b"", error)


def test_files_are_raw_unless_hex_is_given(run: Run, tmp_path: Path) -> None:
    raw, text = tmp_path / "0100", tmp_path / "text"
    raw.write_bytes(BYTES)
    text.write_text(BYTES.hex(":") + "\n")
    wanted = {"transactionalIds": ["a", "b"]}
    assert json.loads(run("decode", "DescribeTransactionsRequest", raw).out) == wanted
    assert json.loads(run("decode", "DescribeTransactionsRequest", text, "--hex").out) == wanted
    result = run("decode", "DescribeTransactionsRequest", raw, "--hex")
    assert (result.code, result.err) == (1, f"error: {raw}: not hex: character 1 is '\\x03'\n")


def test_decodes_standard_input(run: Run) -> None:
    wanted = {"transactionalIds": ["a", "b"]}
    for arguments in (["-"], []):
        assert json.loads(run("decode", "DescribeTransactionsRequest", *arguments, stdin=BYTES).out) == wanted
    hexed = BYTES.hex().encode()
    assert json.loads(run("decode", "DescribeTransactionsRequest", "-", "--hex", stdin=hexed).out) == wanted


def test_rejects_folders(run: Run, tmp_path: Path) -> None:
    assert run("decode", "DescribeTransactionsRequest", tmp_path).code == 1


def test_prints_indented_or_compact_json(run: Run) -> None:
    assert run("decode", "DescribeTransactionsRequest", "0100").out == b'{\n  "transactionalIds": []\n}\n'
    assert run("decode", "DescribeTransactionsRequest", "0100", "--compact").out == b'{"transactionalIds":[]}\n'


def test_prints_unknown_tagged_fields_and_escapes_invalid_utf_8(run: Run) -> None:
    result = run("decode", "DescribeTransactionsRequest", "--compact", "02 03 ff1b 01 63 01 aa")
    assert result.text == '{"transactionalIds":["\\udcff\\u001b"],"_unknownTaggedFields":[[99,"qg=="]]}\n'


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (["DescribeTransactionsRequest", "05"], 1, "Request v0, transactional_ids: at byte 0: expected "),
        (["DescribeTransactionsRequest", "0100ff"], 1, "at byte 2: expected the end of the message, found 1 more byte"),
        (["DescribeTransactionRequest", "05"], 2, "near: DescribeTransactionsRequest"),
        (["DescribeTransactionsRequest", "--version", "9", "05"], 2, "has no version 9; it has 0"),
        (["FetchRequest", "05"], 2, "FetchRequest needs --version; it has "),
        (["kip-999:FetchRequest", "05"], 2, "no namespace 'kip-999'; there are kafka, embedded, kip-360, "),
        (["kip-360:FetchRequest", "05"], 2, "no message is named 'FetchRequest'"),
        (["DescribeTransactionsRequest", "--api-key", "1", "05"], 2, "--api-key goes with --frame only"),
        (["TransactionLogValue", "--prefixed", "--version", "1", "05"], 2, "leave --version out"),
        (["TransactionLogValue", "--prefixed", "00"], 1, "found 1 of its 2 bytes"),
        (["TransactionLogValue", "--prefixed", "0009"], 1, "at byte 0: expected a version from 0 to 1"),
        (["--version", "x", "A", "05"], 2, "--version"),
        ([], 2, "NAME"),
    ],
)  # fmt: skip
def test_errors_have_exit_code_and_place(run: Run, arguments: list[str], code: int, error: str) -> None:
    result = run("decode", *arguments)
    assert result.code == code
    assert result.out == b""
    assert error in result.err
    assert result.err.startswith("error: ")
    assert result.err.count("\n") == 1


def test_accepts_earlier_message_names(run: Run) -> None:
    assert kafkawire.lookup("AlterIsrRequest").spec.name == "AlterPartitionRequest"
    assert run("decode", "AlterIsrRequest", "--version", "0", "ff").code == 1


def test_strict_rejects_bytes_that_are_not_canonical(run: Run) -> None:
    loose = "8100 00"  # a count in two bytes where one is enough
    assert run("decode", "DescribeTransactionsRequest", loose).code == 0
    result = run("decode", "DescribeTransactionsRequest", loose, "--strict")
    assert result.code == 1
    assert "at byte 0" in result.err


def test_prefixed_reads_the_version_from_the_bytes(run: Run) -> None:
    value = TransactionLogValue(producer_id=7, transaction_status=1, transaction_partitions=())
    key = TransactionLogKey(transactional_id="x")
    for name, message, version in (
        ("TransactionLogValue", value, 1),
        ("TransactionLogKey", key, 0),
        ("AbortedTxn", AbortedTxn(producer_id=5), 0),
        ("EndTxnMarker", EndTxnMarker(coordinator_epoch=3), 0),
    ):
        result = run("decode", name, "--prefixed", message.encode_prefixed(version).hex())
        assert json.loads(result.out) == kafkawire.to_json(message, version)


def test_decodes_drafts(run: Run) -> None:
    from kafkawire.drafts.kip_360 import DescribeTransactionStateRequest
    from kafkawire.drafts.kip_664_draft import WriteTxnMarkersRequest

    for namespace, cls, version in (
        ("kip-360", DescribeTransactionStateRequest, 0),
        ("kip-664-draft", WriteTxnMarkersRequest, 1),
    ):
        message = cls()
        result = run("decode", f"{namespace}:{cls.spec.name}", "--version", version, message.encode(version).hex())
        assert json.loads(result.out) == kafkawire.to_json(message, version)


def test_decodes_with_schemas_of_a_folder(run: Run, tmp_path: Path) -> None:
    schema = {"name": "Mine", "type": "data", "validVersions": "0-1", "flexibleVersions": "none", "fields": [
        {"name": "Count", "type": "int32", "versions": "0+"},
    ]}  # fmt: skip
    (tmp_path / "Mine.json").write_text(json.dumps(schema))
    result = run("decode", "--schemas", tmp_path, "Mine", "--version", 1, "00000007")
    assert json.loads(result.out) == {"count": 7}
    assert "near: Mine" in run("decode", "--schemas", tmp_path, "Mime", "--version", 1, "00000007").err
    (tmp_path / "Bad.json").write_text("{")
    (tmp_path / "Worse.json").write_text("[]")
    result = run("decode", "--schemas", tmp_path, "Mine", "--version", 1, "00000007")
    assert result.code == 1
    assert [line.split(":")[1] for line in result.err.splitlines()] == [" Bad.json", " Worse.json"]


# Frames --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 4])
def test_decodes_request_frames(run: Run, size: int) -> None:
    frame = frames.encode_request(REQUEST, version=0, correlation_id=7, client_id="me")[4 - size :]
    assert json.loads(run("decode", "--frame", frame.hex()).out) == {
        "name": "DescribeTransactionsRequest",
        "version": 0,
        "header": {"requestApiKey": 65, "requestApiVersion": 0, "correlationId": 7, "clientId": "me"},
        "body": {"transactionalIds": ["a", "b"]},
    }
    assert json.loads(run("decode", "--frame", "-", stdin=frame).out)["header"]["correlationId"] == 7


@pytest.mark.parametrize("named", [["DescribeTransactionsResponse"], ["--api-key", "65"]])
def test_decodes_response_frames(run: Run, named: list[str]) -> None:
    frame = frames.encode_response(DescribeTransactionsResponse(throttle_time_ms=5), version=0, correlation_id=-1)
    assert json.loads(run("decode", "--frame", "--version", 0, *named, frame.hex()).out) == {
        "name": "DescribeTransactionsResponse",
        "version": 0,
        "header": {"correlationId": -1},
        "body": {"throttleTimeMs": 5, "transactionStates": []},
    }


def test_decodes_the_version_0_answer_to_an_unsupported_version(run: Run) -> None:
    frame = frames.encode_response(ApiVersionsResponse(error_code=35), version=0, correlation_id=1)
    shown = json.loads(run("decode", "--frame", "ApiVersionsResponse", "--version", 4, frame.hex()).out)
    assert (shown["version"], shown["body"]["errorCode"]) == (0, 35)


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (["--frame", "00"], 1, "1 bytes, too few for a request header"),
        (["--frame", "7fff 0000 00000001 0000"], 1, "no request is known with api key 32767"),
        (["--frame", "0041 0063 00000001 0000"], 1, "DescribeTransactionsRequest has no version 99; it has 0"),
        (["--frame", "0041 0000 00000001 0000 00 ff"], 1, "DescribeTransactionsRequest v0"),
        (["--frame", "--version", "0", "00"], 2, "a response needs --version, and its NAME or --api-key"),
        (["--frame", "--api-key", "65", "00"], 2, "a response needs --version, and its NAME or --api-key"),
        (["--frame", "DescribeTransactionsResponse", "00"], 2, "a response needs --version"),
        (["--frame", "DescribeTransactionsRequest", "00"], 2, "DescribeTransactionsRequest is no response"),
        (["--frame", "kip-360:DescribeTransactionStateResponse", "00"], 2, "is no response that comes in frames"),
        (["--frame", "FetchResponse", "--api-key", "65", "--version", "4", "00"], 2, "has the api key 1, not 65"),
        (["--frame", "--version", "0", "--api-key", "65", "00"], 1, "1 bytes, too few for a response header"),
        (["--frame", "--strict", "00"], 2, "--frame goes without"),
        (["--frame", "--prefixed", "00"], 2, "--frame goes without"),
    ],
)
def test_rejects_malformed_frames(run: Run, arguments: list[str], code: int, error: str) -> None:
    result = run("decode", *arguments)
    assert (result.code, result.out) == (code, b"")
    assert error in result.err
    assert result.err.count("\n") == 1


def test_size_prefix_is_skipped_only_where_it_equals_the_size(run: Run) -> None:
    frame = frames.encode_request(ApiVersionsRequest(), version=0, correlation_id=1)[4:]
    assert int.from_bytes(frame[:4], "big") != len(frame) - 4
    assert json.loads(run("decode", "--frame", frame.hex()).out)["name"] == "ApiVersionsRequest"


# Hostile input -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=60), st.sampled_from(["--frame", "FetchResponse", "TransactionLogValue"]))
def test_any_bytes_give_json_or_a_one_line_error(run: Run, data: bytes, how: str) -> None:
    result = run("decode", how, "-", *(["--version", 1] if how != "--frame" else []), stdin=data)
    if result.code == 0:
        json.loads(result.out)
    else:
        assert result.code == 1
        assert result.err.startswith("error: ")
        assert result.err.count("\n") == 1


# Input without an end ------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="needs /dev/zero")
@pytest.mark.parametrize("arguments", [(), ("--hex",), ("--prefixed",)])
def test_endless_input_is_bounded(run: Run, arguments: tuple[str, ...]) -> None:
    version = () if "--prefixed" in arguments else ("--version", "0")
    result = run("decode", "TransactionLogValue", "/dev/zero", *version, *arguments, "--max-message-size", "1000000")
    assert (result.code, result.out) == (1, b"")
    assert result.err == "error: /dev/zero: more than 1000000 bytes (--max-message-size)\n"


def test_bounds_input_by_default(run: Run) -> None:
    result = run("decode", "TransactionLogValue", "--version", "0", "/dev/zero")
    assert result.err == f"error: /dev/zero: more than {100 << 20} bytes (--max-message-size)\n"


def test_bounds_frames_and_standard_input(run: Run) -> None:
    result = run("decode", "--frame", "-", "--max-message-size", "8", stdin=bytes(9))
    assert (result.code, result.err) == (1, "error: standard input: more than 8 bytes (--max-message-size)\n")
    result = run("decode", "AbortedTxn", "--version", "0", "-", "--max-message-size", "32", stdin=bytes(32))
    assert result.code == 0


def test_decodes_frames_of_own_messages(run: Run, tmp_path: Path) -> None:
    keys = {"apiKey": 9001, "validVersions": "0", "flexibleVersions": "none"}
    fields = [{"name": "Text", "type": "string", "versions": "0+"}]
    for name, kind in (("PingRequest", "request"), ("PingResponse", "response")):
        schema = keys | {"name": name, "type": kind, "fields": fields}
        (tmp_path / f"{name}.json").write_text(json.dumps(schema))
    given = ["--schemas", tmp_path, "--version", 0, "--frame", '{"text": "a"}']
    frame = run("encode", "PingRequest", *given).text.strip()
    shown = json.loads(run("decode", "--frame", "--schemas", tmp_path, frame).out)
    assert (shown["name"], shown["body"]) == ("PingRequest", {"text": "a"})
    frame = run("encode", "PingResponse", *given).text.strip()
    shown = json.loads(run("decode", "--frame", "--schemas", tmp_path, "--version", 0, "PingResponse", frame).out)
    assert (shown["name"], shown["body"]) == ("PingResponse", {"text": "a"})
    refused = run("decode", "--frame", "--schemas", tmp_path, "--version", 0, "PongResponse", frame)
    assert (refused.code, "no message is named 'PongResponse'" in refused.err) == (2, True)


def test_what_has_no_effect_in_own_schemas_is_one_line_on_standard_error(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "a\x1b[31mb"
    folder.mkdir()
    schema = {"name": "Foo", "type": "data", "validVersions": "0", "flexibleVersions": "none"}
    fields = [{"name": "One", "type": "int8", "versions": "0-3"}]
    (folder / "Foo.json").write_text(json.dumps(schema | {"fields": fields}))
    result = run("decode", "Foo", "--schemas", folder, "05")
    assert json.loads(result.out) == {"one": 5}
    assert result.err.startswith("warning: Foo.json: line 1, column ")
    assert result.err.count("\n") == 1
