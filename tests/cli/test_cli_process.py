"""What only a process shows: pipes, signals, terminals, start-up."""

from __future__ import annotations

import array
import fcntl
import json
import os
import pty
import re
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.harmless import harmless
from tests.cli.terminal import COMMAND, on_a_terminal

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("terminal_signals")]

HOSTILE = {"transactionalIds": ["\x1b]0;owned\x07\x1b[2J", "\u202e", "é", "\udcff"]}
CAPTURE = Path(__file__).parents[2] / "examples" / "capture" / "transactions.pcap"
#: None of these may be imported by a command that does not need it.
HEAVY = {"construct", "jinja2", "numpy", "pandas", "pyarrow", "pydantic", "pyspark", "rich"}

#: What other modules bring along.
NOT_NEEDED = {"crc32c", "email", "hmac"}


def kafkawire(*arguments: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, timeout=60, **options)


def test_exit_codes_and_streams_of_the_process() -> None:
    good = kafkawire("decode", "DescribeTransactionsRequest", "0100")
    assert (good.returncode, json.loads(good.stdout), good.stderr) == (0, {"transactionalIds": []}, b"")
    bad = kafkawire("decode", "DescribeTransactionsRequest", "05")
    assert (bad.returncode, bad.stdout, bad.stderr.count(b"\n")) == (1, b"", 1)
    usage = kafkawire("nonsense")
    assert (usage.returncode, usage.stdout, usage.stderr.count(b"\n")) == (2, b"", 1)


@pytest.mark.parametrize(
    "arguments",
    [
        ["schema", "list"],
        ["schema", "list", "--format", "csv"],
        ["schema", "list", "--format", "table"],
        ["schema", "export", "FetchResponse"],
        ["decode", "DescribeTransactionsRequest", "0100"],
        ["--help"],
    ],
    ids=" ".join,
)
def test_closed_pipe_ends_without_an_error(arguments: list[str]) -> None:
    process = subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    assert process.wait(60) == 141


def test_head_ends_the_command() -> None:
    line = f"{sys.executable} -m kafkawire schema list | head -1"
    result = subprocess.run(["sh", "-c", line], capture_output=True, timeout=60)
    assert json.loads(result.stdout)["name"] == "AbortTransactionRecord"
    assert result.stderr == b""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_full_disk_exits_with_1() -> None:
    with open("/dev/full", "wb") as full:
        result = subprocess.run([*COMMAND, "schema", "list"], stdout=full, stderr=subprocess.PIPE, timeout=60)
    assert (result.returncode, result.stderr) == (1, b"error: standard output: No space left on device\n")


def test_ctrl_c_exits_with_130() -> None:
    process = subprocess.Popen(
        [*COMMAND, "decode", "DescribeTransactionsRequest", "-"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None
    process.stdin.write(b"\x01")
    process.stdin.flush()
    left = array.array("i", [1])
    deadline = time.monotonic() + 30
    while left[0] and time.monotonic() < deadline:  # until the command has taken it: then it waits for more
        fcntl.ioctl(process.stdin, termios.FIONREAD, left)
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, b"", b"")


def test_terminal_gets_tables_without_control_characters(tmp_path: Path) -> None:
    text = on_a_terminal("schema", "list", "--family", "transaction").replace("\x1b[1m", "").replace("\x1b[0m", "")
    assert text.splitlines()[0].split() == ["name", "kind", "family", "api_key", "versions", "flexible"]
    assert harmless(text)

    hexed = kafkawire("encode", "DescribeTransactionsRequest", json.dumps(HOSTILE)).stdout.decode().strip()
    text = on_a_terminal("decode", "DescribeTransactionsRequest", hexed)
    assert json.loads(text) == HOSTILE
    assert harmless(text)
    assert "é" in text

    name = tmp_path / "\x1b[31mx\u202e"
    text = on_a_terminal("decode", "DescribeTransactionsRequest", str(name))
    assert text.startswith("error: ")
    assert harmless(text)


def test_terminal_without_utf_8_gets_escapes() -> None:
    hexed = kafkawire("encode", "DescribeTransactionsRequest", json.dumps(HOSTILE)).stdout.decode().strip()
    text = on_a_terminal("decode", "DescribeTransactionsRequest", hexed, PYTHONIOENCODING="latin-1")
    assert text.isascii()
    assert json.loads(text) == HOSTILE


def test_terminal_without_utf_8_gets_ascii_tables() -> None:
    text = on_a_terminal("schema", "list", "--family", "transaction", PYTHONIOENCODING="ascii")
    assert set(text.splitlines()[1].replace("\x1b[0m", "")) == {"-", "+"}


@pytest.mark.parametrize("redirection", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
def test_closed_streams_are_no_error(redirection: str) -> None:
    line = f"{sys.executable} -m kafkawire decode DescribeTransactionsRequest 0100 {redirection}"
    result = subprocess.run(["sh", "-c", line], capture_output=True, timeout=60)
    assert (result.returncode, result.stderr) == (0, b"")


def test_closed_standard_input_is_empty() -> None:
    line = f"{sys.executable} -m kafkawire decode DescribeTransactionsRequest - <&-"
    result = subprocess.run(["sh", "-c", line], capture_output=True, timeout=60)
    assert (result.returncode, b"at byte 0" in result.stderr) == (1, True)


def test_paths_that_the_terminal_cannot_show_are_escaped(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    result = kafkawire("schema", "export", "AbortedTxn", "-o", str(tmp_path / "大"), env=env)
    assert (result.returncode, result.stdout.endswith(b"\\u5927/common/AbortedTxn.json\n")) == (0, True)


def test_missing_input_on_a_terminal_is_a_usage_error() -> None:
    reader, writer = pty.openpty()
    result = subprocess.run(
        [*COMMAND, "decode", "DescribeTransactionsRequest"], stdin=writer, capture_output=True, timeout=60
    )
    os.close(writer)
    os.close(reader)
    assert result.returncode == 2
    assert b"give the input" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["decode", "DescribeTransactionsRequest", "0100"],
        ["schema", "list"],
        ["--help"],
        ["dump", "--help"],
        ["txn", "find-hanging", "--help"],
        ["txn", "watch", "--help"],
        ["capture", str(CAPTURE), "--stats"],
        ["capture", str(CAPTURE), "--api", "Metadata", "--body"],
        ["capture", str(CAPTURE), "--format", "jsonl"],
        ["capture", str(CAPTURE), "--slow", "5", "--connection", "1", "--port", "9092"],
        ["decode", "DescribeTransactionsRequest", "--version", "0", "0100"],
    ],
    ids=lambda arguments: " ".join(map(os.path.basename, arguments)),
)
def test_startup_imports_no_heavy_module(arguments: list[str]) -> None:
    code = f"import sys; from kafkawire.cli import main; main({arguments!r}); print(*sys.modules, file=sys.stderr)"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60).stderr.decode().split()
    assert "kafkawire.cli" in modules
    assert not {name.split(".")[0] for name in modules} & HEAVY
    assert "kafkawire.capture.tls.session" not in modules
    if arguments[:2] != ["txn", "watch"]:  # it serves metrics
        assert not {*modules} & NOT_NEEDED
    if arguments[0] != "capture":
        assert sum(name.startswith("kafkawire.messages.") for name in modules) <= 1


def test_client_imports_no_heavy_module() -> None:
    """It judges what is live, and reads no log directories: operators wait for its start."""
    code = "import sys, kafkawire.client; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60).stdout.decode().split()
    assert "kafkawire.client" in modules
    assert not {name.split(".")[0] for name in modules} & HEAVY
    assert "kafkawire.logdir" not in modules


def test_completes_in_a_shell() -> None:
    env = {**os.environ, "_KAFKAWIRE_COMPLETE": "complete_bash", "COMP_WORDS": "kafkawire sch", "COMP_CWORD": "1"}
    result = kafkawire(env=env)
    assert result.stdout.split() == [b"schema"]


def test_requested_backend_is_loaded_or_an_error() -> None:
    result = kafkawire("decode", "DescribeTransactionsRequest", "0100", env={**os.environ, "KAFKAWIRE_BACKEND": "x"})
    assert result.returncode in (0, 1)
    result = kafkawire("--version", env={**os.environ, "KAFKAWIRE_BACKEND": "x"})
    assert result.returncode == 1
    assert result.stderr.startswith(b"error: KAFKAWIRE_BACKEND='x' is neither")


def names_command(line: str) -> bool:
    return "kafkawire " in line or "kafka-transactions.sh " in line


@pytest.mark.parametrize(
    "arguments",
    [
        ("audit", "examples/kafka-logs/three-nodes"),
        ("why", "examples/kafka-logs/three-nodes", "--topic", "payments", "--evidence"),
    ],
)
def test_prose_on_a_terminal_wraps_to_its_width(arguments: tuple[str, ...]) -> None:
    """All but commands, which are copied, and what has no blank: a path."""
    shown = re.sub(r"\x1b\[[0-9?]*[A-Za-z]", "", on_a_terminal(*arguments)).rpartition("━")[2]  # below the progress
    wide = [line for line in shown.splitlines() if len(line) > 80]
    assert [line for line in wide if " " in line.strip().removeprefix("- ") and not names_command(line)] == []
    assert any(line.startswith("    ") for line in shown.splitlines())
