"""`kafkawire encode`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from kafkawire import frames
from kafkawire.messages import DescribeTransactionsRequest, DescribeTransactionsResponse, TransactionLogValue
from tests.cli.runner import Run

NAME = "DescribeTransactionsRequest"
TEXT = '{"transactionalIds": ["a", "\\udcff", "é"]}'
BYTES = DescribeTransactionsRequest(transactional_ids=("a", "\udcff", "é")).encode(version=0)


def test_reads_json_from_argument_file_and_standard_input(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "message.json"
    path.write_text("\ufeff" + TEXT, "utf-8")
    wanted = BYTES.hex().encode() + b"\n"
    assert run("encode", NAME, "--version", 0, TEXT).out == wanted
    assert run("encode", NAME, path).out == wanted
    assert run("encode", NAME, "-", stdin=TEXT.encode()).out == wanted
    assert run("encode", NAME, stdin=TEXT.encode()).out == wanted
    assert run("encode", NAME, "--raw", TEXT).out == BYTES


def test_encodes_what_decode_prints(run: Run) -> None:
    data = BYTES[:-1] + bytes.fromhex("016301aa")
    assert bytes.fromhex(run("encode", NAME, "-", stdin=run("decode", NAME, data.hex()).out).text) == data


@pytest.mark.parametrize(("option", "value"), [("--client-id", "x"), ("--correlation-id", "0")])
def test_what_is_of_a_frame_is_refused_without_one(run: Run, option: str, value: str) -> None:
    refused = run("encode", NAME, option, value, TEXT)
    assert (refused.code, refused.out) == (2, b"")
    assert refused.err == f"error: {option} needs --frame (kafkawire encode --help)\n"


def test_prefixed_writes_the_version(run: Run) -> None:
    value = TransactionLogValue(producer_id=7)
    shown = run("decode", "TransactionLogValue", "--prefixed", value.encode_prefixed(1).hex()).out
    result = run("encode", "TransactionLogValue", "--version", 1, "--prefixed", "-", stdin=shown)
    assert bytes.fromhex(result.text) == value.encode_prefixed(1)


def test_frame_writes_a_whole_request(run: Run) -> None:
    request = DescribeTransactionsRequest(transactional_ids=("a", "\udcff", "é"))
    wanted = frames.encode_request(request, version=0, correlation_id=9, client_id="me")
    result = run("encode", NAME, TEXT, "--frame", "--correlation-id", 9, "--client-id", "me")
    assert bytes.fromhex(result.text) == wanted
    response = '{"throttleTimeMs": 1, "transactionStates": []}'
    result = run("encode", "DescribeTransactionsResponse", response, "--frame", "--correlation-id", 9)
    message = DescribeTransactionsResponse(throttle_time_ms=1)
    assert bytes.fromhex(result.text) == frames.encode_response(message, version=0, correlation_id=9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        ([NAME, "{"], 1, "not JSON: line 1, column 2: "),
        ([NAME, '{"a":\n 1,}'], 1, "not JSON: line 2, column "),
        ([NAME, "no/such.json"], 1, "'no/such.json' is neither a file nor JSON: line 1, column 1: "),
        ([NAME, ""], 1, "'' is neither a file nor JSON: line 1, column 1: "),
        ([NAME, "[1]"], 1, "DescribeTransactionsRequest v0: expected an object, got an array"),
        ([NAME, '{"transactionalIds": [1]}'], 1, "transactionalIds[0]: expected a string, got an integer"),
        ([NAME, '{"transactionalId": []}'], 1, "transactionalId"),
        ([NAME, '{"transactionalIds": null}'], 1, "transactionalIds: null where an array must be"),
        ([NAME, '{"transactionalIds": NaN}'], 1, "not JSON: NaN"),
        ([NAME, '{"transactionalIds": [], "transactionalIds": []}'], 1, "the key 'transactionalIds' is given twice"),
        ([NAME, "[" * 100_000], 1, "nested too deeply"),
        ([NAME, "1" * 10_000], 1, "not the JSON of a message"),
        ([NAME, TEXT, "--frame", "--prefixed"], 2, "do not go together"),
        ([NAME, TEXT, "--frame", "--correlation-id", str(1 << 40)], 1, "correlation_id"),
        (["DescribeTransactionsResponse", '{"throttleTimeMs": 0, "transactionStates": []}', "--frame",
          "--client-id", "x"], 2, "a response has no client id"),
        (["TransactionLogKey", '{"transactionalId": "x"}', "--frame"], 1, "cannot be sent"),
        (["kip-664-draft:DescribeProducersRequest", '{"topics": []}', "--frame"], 1, "cannot be sent"),
        (["EndTxnMarker", '{"coordinatorEpoch": 4294967296}'], 1, "coordinatorEpoch"),
        (["Foo", "{}"], 2, "no message is named 'Foo'"),
    ],
)  # fmt: skip
def test_errors_have_exit_code_and_place(run: Run, arguments: list[str], code: int, error: str) -> None:
    result = run("encode", *arguments)
    assert (result.code, result.out) == (code, b"")
    assert error in result.err
    assert result.err.startswith("error: ")
    assert result.err.count("\n") == 1


def test_rejects_files_that_are_no_utf_8(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(b'{"a": "\xff"}')
    assert run("encode", NAME, path).err == f"error: {path}: not UTF-8 at byte 7\n"


def test_refuses_raw_bytes_on_a_terminal(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    result = run("encode", NAME, "--raw", json.dumps({"transactionalIds": []}))
    assert (result.code, result.out) == (2, b"")


def test_endless_input_is_bounded(run: Run) -> None:
    arguments = ("encode", "AbortedTxn", "--version", "0", "--max-message-size", "1000000")
    result = run(*arguments, "/dev/zero")
    assert (result.code, result.err) == (1, "error: /dev/zero: more than 1000000 bytes (--max-message-size)\n")
    result = run(*arguments, "-", stdin=b" " * 1_000_001)
    assert (result.code, result.err) == (1, "error: standard input: more than 1000000 bytes (--max-message-size)\n")
