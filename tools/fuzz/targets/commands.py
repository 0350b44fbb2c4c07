"""The command line: arguments alone, and whole commands on hostile files and texts."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from typing import Any
from unittest import mock

import typer

from kafkawire.cli import main
from kafkawire.cli.arguments import InputError, hex_bytes, parse_address
from kafkawire.cli.formatting import printable
from kafkawire.cli.ranges import offset_range, time_range
from kafkawire.client.errors import ConfigError
from kafkawire.client.transport.config import parse_addresses
from tools import ROOT
from tools.fuzz import input_files, inputs, seed_vectors
from tools.fuzz.target import FuzzTarget
from tools.fuzz.targets import captures, records

# Arguments ------------------------------------------------------------------------------------------------------------

_READERS: tuple[Callable[[str], Any], ...] = (
    lambda text: hex_bytes(text, None),
    offset_range,
    time_range,
    parse_address,
    parse_addresses,
    printable,
)


def check_argument(data: bytes) -> None:
    """The first byte selects the kind of text."""
    text = data[1:].decode("utf-8", "surrogateescape")
    reader = inputs.pick(_READERS, data)
    try:
        found = reader(text)
    except (InputError, ConfigError, typer.BadParameter):
        return
    if reader is printable:
        from tests.cli.harmless import harmless

        assert harmless(found)
        assert printable(found) == found


def _arguments() -> Iterator[bytes]:
    texts = (
        *(
            b"0x00 0a:0B\n",
            b"10..20",
            b"..5",
            b"7",
            b"2026-11-21T10:00..2026-11-21T11:00:00.123Z",
            b"0001-01-01+23:59..",
        ),
        *(b"[::1]:9100", b"9100", b"PLAINTEXT://a:9092,[::1]:1", b"a:" + b"9" * 4301, b"9" * 4301 + b"..", b"-5..5"),
        *("a\x1b[31m\u202e\u200b\x9b\udcff".encode("utf-8", "surrogateescape"), b"9999-12-31T23:59:59-23:59.."),
    )
    for number in range(len(_READERS)):
        for text in texts:
            yield bytes([number]) + text


# Commands -------------------------------------------------------------------------------------------------------------

_NAME = "00000000000000000000"
#: Command lines, by what they are given; FILE is the input as a file (with a name that the command accepts), TEXT the
#: input as an argument.
_LINES = {
    "message": (
        ("decode", "FetchResponse", "--version", "12", "FILE"),
        ("decode", "MetadataResponse", "--version", "12", "--hex", "FILE"),
        ("decode", "TransactionLogValue", "--prefixed", "FILE"),
        ("decode", "ListTransactionsRequest", "--frame", "FILE"),
        ("decode", "kip-664-draft:DescribeProducersResponse", "--version", "0", "FILE"),
    ),
    "json": (
        ("encode", "DescribeTransactionsRequest", "--version", "0", "FILE"),
        ("encode", "FetchRequest", "--version", "12", "--frame", "FILE"),
    ),
    "capture": (
        ("capture", "FILE"),
        ("capture", "--body", "--records", "--format", "jsonl", "FILE"),
        ("capture", "--format", "csv", "FILE"),
        ("capture", "--summary", "FILE"),
    ),
    "log": (
        ("dump", "--deep-iteration", "--print-data-log", "--format", "table", "orders-0/FILE.log"),
        ("dump", "--deep-iteration", "--print-data-log", "--format", "csv", "__transaction_state-0/FILE.log"),
        ("dump", "--format", "jsonl", "--index-sanity-check", "orders-0/FILE.index"),
        ("dump", "--format", "table", "orders-0/FILE.snapshot"),
        ("audit", "--format", "table", "orders-0/FILE.log"),
        ("audit", "--format", "json", "__transaction_state-0/FILE.log"),
        ("dump", "--isolation-level", "read_committed", "--print-data-log", "--format", "table", "orders-0/FILE.log"),
        ("explain", "--topic", "orders", "--partition", "0", "--format", "table", "orders-0/FILE.log"),
        ("explain", "--topic", "orders", "--partition", "0", "--offset", "1", "--format", "table", "orders-0/FILE.log"),
    ),
    "schema": (
        ("schema", "check", "FILE.json"),
        ("schema", "show", "--schemas", ".", "FILE"),
    ),
    "text": (
        ("dump", "--offset", "TEXT", "."),
        ("dump", "--time", "TEXT", "."),
        ("decode", "TEXT", "--version", "0", "00"),
        ("txn", "list", "--bootstrap-server", "127.0.0.1:1", "--command-config", "FILE"),
    ),
}
_ALL = [line for lines in _LINES.values() for line in lines]
#: Seeds of a command line: each costs a tenth of a second.
_MOST_BODIES = 6
_DONE, _USAGE = (0, 1, 3, 4), 2


def check_command(data: bytes) -> None:
    """The first byte selects the command line; the rest is its file, or its text."""
    from tests.cli.harmless import harmless

    line = inputs.pick(_ALL, data)
    body = data[1:]
    text = body.decode("utf-8", "surrogateescape").replace("\0", "")
    root = input_files.written("command", [])
    arguments = []
    for word in line:
        if "FILE" in word:
            path = root / word.replace("FILE", _NAME)
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(body)
            word = str(path)
        arguments.append(str(root) if word == "." else text if word == "TEXT" else word)
    code, out, err = _run(arguments)
    assert code in _DONE or code == _USAGE, (code, err)
    assert "unexpected " not in err, err
    assert "Traceback" not in err, err
    assert harmless(err), err
    assert "table" not in line or harmless(out), out
    assert code != 1 or err


def _run(arguments: list[str]) -> tuple[int, str, str]:
    out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO())):
        code = main(arguments)
        out.flush()
    return code, out.buffer.getvalue().decode("utf-8", "replace"), err.getvalue()


def _commands() -> Iterator[bytes]:
    schema = ROOT / "schemas" / "kafka" / "transaction" / "TransactionLogValue.json"
    indexes = sorted(seed_vectors.EXAMPLES.glob("kafka-logs/one-node/*/*/*.*index"))[:2]
    bodies = {
        "message": [
            data for name, _, data, _ in seed_vectors.messages(200) if name in ("FetchResponse", "MetadataResponse")
        ],
        "json": [b"{}", b'{"transactionalIds": ["a"]}', b'{"replicaId":', b"[" * 990],
        "capture": [data for data in captures._pcaps() if len(data) < 3000],
        "log": [*records.batches(), *(path.read_bytes()[:400] for path in indexes)],
        "schema": [schema.read_bytes()[-1500:], b'{"name":"A","type":"data","fields":[]}'],
        "text": [b"10..20", b"\x1b]8;;x\x07[red]=cmd|", b"client.id=\\u00e9", b"..2026-11-21"],
    }
    for kind, lines in _LINES.items():
        for line in lines:
            for body in bodies[kind][-_MOST_BODIES:]:
                yield bytes([_ALL.index(line)]) + body


# ----------------------------------------------------------------------------------------------------------------------

TARGETS = (
    FuzzTarget(
        name="arguments",
        reads="arguments: hex, ranges of offsets and times, addresses, and text for a terminal",
        holds="a usage error, or a value; text that is printed does nothing to a terminal",
        check=check_argument,
        seeds=_arguments,
        form=inputs.TEXT,
        longest=5000,
        words=(b"..", b"0x", b"T10:00", b"+00:00", b"://", b"[::1]", "\u202e".encode(), b"\xff"),
    ),
    FuzzTarget(
        name="commands",
        reads="whole commands (decode, encode, capture, dump, explain, audit, schema, txn) on any file or text",
        holds="an exit code and a sentence, never a traceback; no output acts on a terminal",
        check=check_command,
        seeds=_commands,
        longest=3000,
    ),
)
