"""Outputs: none replaces what is read, and each is complete or not there."""

from __future__ import annotations

import errno
import os
import pty
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import typer
from typer.main import get_command

from kafkawire.cli import app, audit
from kafkawire.cli.output_file import Sink, check_log_output, check_output, open_output
from tests.cli.runner import Run

EXAMPLES = Path(__file__).parents[2] / "examples"
CAPTURE = EXAMPLES / "capture" / "transactions.pcap"
NAME = "00000000000000000000"
COMMAND = [sys.executable, "-m", "kafkawire"]
FORMER = b"what stood there before\n"
WAIT_S = 60.0


@pytest.fixture
def inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, with a capture, a broker's log directory, schemas, and other names of these."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(CAPTURE, "c.pcap")
    shutil.copytree(EXAMPLES / "kafka-logs" / "one-node" / "broker-1", "logs")
    shutil.copy(f"logs/orders-1/{NAME}.log", "L.log")
    shutil.copytree(EXAMPLES.parent / "schemas" / "kafka" / "common", "schemas/common")
    Path("client.properties").write_text("client.id=x\n")
    Path("symbolic").symlink_to("c.pcap")
    os.link("c.pcap", "hard")
    os.link(f"logs/orders-1/{NAME}.log", "hard.log")
    Path("moved.log").write_bytes(Path("L.log").read_bytes())
    Path("logs/orders-1/00000000000000000099.log").symlink_to(tmp_path / "moved.log")
    Path("logs/dangling").symlink_to(tmp_path / "not-yet")
    Path("into").symlink_to("logs")
    return tmp_path


def content(folder: Path) -> dict[str, bytes]:
    """All files below a directory."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


TXN = "--bootstrap-server 127.0.0.1:1 --command-config client.properties"
#: A command line that names a file as input and as output -> what the error names beside the output.
REFUSED = {
    "dump L.log --print-data-log -o L.log": "the input L.log",
    "dump L.log --print-data-log -o ./logs/../L.log": "the input L.log",
    "dump L.log -o {here}/L.log": "the input L.log",
    f"dump hard.log -o logs/orders-1/{NAME}.log": "the input hard.log",
    f"dump logs -o logs/orders-1/{NAME}.log": "the input logs",
    "dump logs -o logs/new.parquet": "the input logs",
    "dump logs/ L.log -o logs/orders-1/new.csv": "the input logs/",
    "dump logs -o into/new.csv": "the input logs",
    "dump logs -o logs/dangling": "the input logs",
    "dump into -o logs/new.csv": "the input into",
    "dump logs -o hard.log": f"the input logs/orders-1/{NAME}.log",
    "dump logs -o moved.log": "the input logs/orders-1/00000000000000000099.log",
    "dump file://{here}/logs -o logs/new.csv": "the input file://{here}/logs",
    f"dump logs/orders-1/{NAME}.log -o logs/orders-1/{NAME}.index": "a file of a log directory",
    "dump logs/orders-1 -o logs/meta.properties": "a file of a log directory",
    "capture c.pcap -o c.pcap": "the input c.pcap",
    "capture symbolic -o c.pcap": "the input symbolic",
    "capture c.pcap -o symbolic": "the input c.pcap",
    "capture hard -o c.pcap --format parquet": "the input hard",
    "capture c.pcap --follow -o hard": "the input c.pcap",
    "audit logs --report logs/report.html": "the input logs",
    f"audit logs/orders-1/{NAME}.log logs --report logs/orders-1/{NAME}.log": "the input",
    f"audit logs --report logs/orders-1/{NAME}.log --engine spark": "the input logs",
    "explain logs --topic orders --partition 1 -o logs/new.csv": "the input logs",
    "explain logs --topic orders --partition 1 --report logs/report.html": "the input logs",
    "schema show AbortedTxn --schemas schemas -o schemas/common/AbortedTxn.json": "the input schemas",
    "schema diff schemas kafka -o schemas/common/AbortedTxn.json": "the input schemas",
    "schema emit wireshark --schemas schemas -o schemas/common/AbortedTxn.json": "the input schemas",
    "schema import schemas -o schemas --family common --force": "the input schemas",
    "dump logs --print-data-log --tier-key L.log -o L.log": "the input L.log",
    "dump --bootstrap-server 127.0.0.1:1 --command-config c.pcap --topic a -o hard": "the input c.pcap",
    "audit logs --tier-key c.pcap --report hard": "the input c.pcap",
    f"audit {TXN} --report client.properties": "the input client.properties",
    f"audit {TXN} --resume c.pcap --report symbolic": "the input c.pcap",
    "explain logs --topic orders --partition 1 --tier-key c.pcap -o hard": "the input c.pcap",
    "explain logs --topic orders --partition 1 --tier-key c.pcap --report hard": "the input c.pcap",
    "witness --captures c.pcap --logs logs -o symbolic": "the input c.pcap",
    "witness --captures c.pcap --logs logs -o logs/new.csv": "the input logs",
    "witness --captures c.pcap --logs logs --keylog client.properties -o client.properties": "client.properties",
    "witness --captures c.pcap --logs logs --tier-key client.properties -o client.properties": "client.properties",
    "witness --captures c.pcap --logs logs --report symbolic": "the input c.pcap",
    "witness --captures c.pcap --logs logs --report logs/report.html": "the input logs",
    f"witness --captures c.pcap --logs logs/orders-1/{NAME}.log -o logs/meta.properties": "a file of a log directory",
    "compare logs logs/orders-1 -o logs/new.csv": "the input logs",
    "compare L.log logs -o into/new.csv": "the input logs",
    "compare logs logs --tier-key client.properties -o client.properties": "the input client.properties",
    f"proxy {TXN} --record client.properties": "the input client.properties",
    "proxy --bootstrap-server 127.0.0.1:1 --tls-certificate c.pcap --record hard": "the input c.pcap",
    f"txn list {TXN} -o client.properties": "the input client.properties",
    f"txn describe {TXN} --transactional-id a -o client.properties": "the input client.properties",
    f"txn describe {TXN} --topic a -o client.properties": "the input client.properties",
    f"txn describe-producers {TXN} --topic a -o client.properties": "the input client.properties",
    f"txn watch {TXN} --once --textfile client.properties": "the input client.properties",
    f"txn abort {TXN} --topic a --all-hanging --yes --audit-log client.properties": "the input client.properties",
    f"txn force-terminate {TXN} --transactional-id a --yes --audit-log client.properties": "client.properties",
    f"txn commit {TXN} --transactional-id a --producer-id 1 --producer-epoch 0 --yes --audit-log client.properties": (
        "client.properties"
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("line", REFUSED)
def test_rejects_output_that_is_an_input(inputs: Path, run: Run, line: str) -> None:
    before = content(inputs)
    result = run(*line.format(here=inputs).split())
    assert (result.code, result.out) == (2, b"")
    assert REFUSED[line].format(here=inputs) in result.err
    assert len(result.err.splitlines()) == 1
    assert content(inputs) == before


#: The options of commands that name a file to write, and command lines that show what becomes of them; None: a test of
#: its own.
WRITING = {
    "capture --frames-out": None,
    "schema export --output": None,
    "schema generate --output": None,
    "schema list --output": None,
    "schema check --output": None,
}


def test_every_command_that_writes_a_file_has_a_case() -> None:
    def options(command: object, name: str) -> Iterator[str]:
        group = getattr(command, "list_commands", None)
        if group is None:
            if not getattr(command, "hidden", False):  # another name of a command
                params = getattr(command, "params", ())
                yield from (f"{name} {one}" for param in params for one in param.opts if one in outputs)
            return
        with typer.Context(command) as context:  # type: ignore[arg-type]
            for one in group(context):
                yield from options(command.get_command(context, one), f"{name} {one}".strip())  # type: ignore[attr-defined]

    outputs = {"--output", "--report", "--frames-out", "--textfile", "--audit-log", "--record"}
    shown = set(WRITING)
    for line in REFUSED:
        words = ["--output" if word == "-o" else word for word in line.split()]
        command = " ".join(words[: 2 if words[0] in ("schema", "txn") else 1])
        shown |= {f"{command} {word}" for word in words if word in outputs}
    assert set(options(get_command(app), "")) == shown


@pytest.mark.slow
def test_frames_out_does_not_replace_the_capture(inputs: Path, run: Run) -> None:
    assert run("capture", "c.pcap", "--frames-out", "frames").code == 4
    name = next(path.name for path in sorted(Path("frames").iterdir()))
    Path("other").mkdir()
    os.link("c.pcap", f"other/{name}")
    result = run("capture", "c.pcap", "--frames-out", "other")
    assert (result.code, "other" in result.err, "the input c.pcap" in result.err) == (2, True, True)
    assert Path("c.pcap").read_bytes() == CAPTURE.read_bytes()
    os.unlink(f"other/{name}")
    Path(f"other/{name}").symlink_to(inputs / "c.pcap")
    assert run("capture", "c.pcap", "--frames-out", "other").code == 2
    assert Path("c.pcap").read_bytes() == CAPTURE.read_bytes()


@pytest.mark.slow
def test_rejects_redirected_output_that_is_an_input(inputs: Path) -> None:
    line = "{python} -m kafkawire capture {arguments}"
    for arguments, named in {
        "- -o c.pcap < c.pcap": "the input -",
        "c.pcap >> c.pcap": "standard output is redirected into the input c.pcap",
        "c.pcap -o out.jsonl > out.jsonl": "out.jsonl is where standard output goes",
        "c.pcap -o /dev/stdout >> out.jsonl": "/dev/stdout is where standard output goes",
        "c.pcap -o /dev/stdout | cat >&2; exit 2": "/dev/stdout is where standard output goes",
        "c.pcap -o log 2>> log": "log is where standard error goes",
    }.items():
        result = subprocess.run(
            ["sh", "-c", line.format(python=sys.executable, arguments=arguments)], capture_output=True, timeout=WAIT_S
        )
        reported = result.stderr.decode() + (Path("log").read_text() if "log" in arguments.split() else "")
        assert (result.returncode, named in reported) == (2, True), (arguments, reported)
    assert Path("c.pcap").read_bytes() == CAPTURE.read_bytes()


@pytest.mark.slow
def test_rejects_output_that_is_no_regular_file(inputs: Path, run: Run) -> None:
    os.mkfifo("fifo")
    Path("folder").mkdir()
    listening = socket.socket(socket.AF_UNIX)
    listening.bind("socket")
    terminal, other_side = pty.openpty()  # a device beside which no test can create a file, unlike /dev/null
    expected = {
        os.ttyname(other_side): "a character device, not a regular file: redirect standard output there",
        "fifo": "a FIFO, not a regular file: redirect standard output there",
        "socket": "a socket, not a regular file: redirect standard output there",
        "folder": "a directory, not a file",
    }
    for name, reported in expected.items():
        for arguments in (["capture", "c.pcap", "-o"], ["audit", "logs", "--report"], ["schema", "list", "-o"]):
            result = run(*arguments, name)
            assert (result.code, result.out) == (2, b"")
            assert f"{name} is {reported}" in result.err
    listening.close()
    os.close(terminal)
    os.close(other_side)


def test_rejects_generated_files_that_are_no_regular_files(inputs: Path, run: Run) -> None:
    Path("codecs").mkdir()
    os.mkfifo("codecs/aborted_txn.py")
    result = run("schema", "generate", "--schemas", "schemas", "--output", "codecs")
    assert (result.code, "codecs/aborted_txn.py is a FIFO" in result.err) == (2, True)


def test_accepts_output_next_to_inputs(inputs: Path, run: Run) -> None:
    segment = f"logs/orders-1/{NAME}.log"
    assert run("dump", segment, "-o", "rows.jsonl").code == 0
    assert run("dump", segment, "-o", "rows.jsonl").code == 0, "a former output is replaced"
    assert run("capture", "c.pcap", "-o", "rows.csv").code == 4
    assert run("dump", segment, "-o", "logs/orders-1/rows.csv").code == 0
    assert run("audit", "logs", "--report", "report.html").code == 5
    assert Path("report.html").read_bytes().startswith(b"<!doctype html>")
    assert not list(inputs.glob(".*"))


def test_skips_stores_without_inodes_and_missing_inputs(inputs: Path) -> None:
    check_log_output("new", ["s3://bucket/logs", "missing", "logs/orders-1"])
    check_output("L.log", [None, "s3://bucket/L.log", "-"])
    check_output("-", ["L.log"])
    check_output(None, ["L.log"])


# Writing -------------------------------------------------------------------------------------------------------------


def write(path: str, data: bytes, *, live: bool = False) -> None:
    with open_output(path, live=live) as file:
        file.write(data)


def test_replaces_a_file_when_it_is_complete(tmp_path: Path) -> None:
    target = tmp_path / "rows"
    target.write_bytes(FORMER)
    with open_output(str(target)) as file:
        file.write(b"new")
        file.flush()
        assert target.read_bytes() == FORMER
        assert len(list(tmp_path.iterdir())) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["rows"]
    assert target.read_bytes() == b"new"


def fail(file: Sink) -> None:
    """Writes something, and fails."""
    file.write(b"new")
    raise ZeroDivisionError


def test_an_error_leaves_the_former_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "rows"
    for former in (None, FORMER):
        if former is not None:
            target.write_bytes(former)
        with pytest.raises(ZeroDivisionError), open_output(str(target)) as file:
            fail(file)
        assert [path.read_bytes() for path in tmp_path.iterdir()] == ([former] if former else [])
    first, second = capsys.readouterr().err.splitlines()
    assert first == f"note: nothing was written to {target}"
    assert second == f"note: nothing was written to {target}: the former file is unchanged"


def test_keeps_the_permissions_of_the_former_file(tmp_path: Path) -> None:
    target = tmp_path / "rows"
    mask = os.umask(0o027)
    try:
        write(str(target), b"")
        assert stat.S_IMODE(target.stat().st_mode) == 0o640
        for mode in (0o600, 0o666):
            target.chmod(mode)
            with open_output(str(target)):
                (temporary,) = tmp_path.glob(".*")
                assert stat.S_IMODE(temporary.stat().st_mode) & ~mode == 0
            assert stat.S_IMODE(target.stat().st_mode) == mode
    finally:
        os.umask(mask)


def test_refuses_to_replace_a_read_only_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, how: how != os.W_OK)  # root may write to every file
    target = tmp_path / "rows"
    target.write_bytes(FORMER)
    with pytest.raises(PermissionError) as caught:
        write(str(target), b"new")
    assert caught.value.filename == str(target)
    assert target.read_bytes() == FORMER


def test_keeps_a_link_and_writes_its_target(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    target, link = tmp_path / "inner" / "rows", tmp_path / "link"
    link.symlink_to("inner/rows")
    for data in (b"created", b"replaced"):
        write(str(link), data)
        assert os.readlink(link) == "inner/rows"
        assert target.read_bytes() == data
    assert [path.name for path in (tmp_path / "inner").iterdir()] == ["rows"]


def test_circular_links_stay_unchanged(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="Too many levels of symbolic links") as caught:
        write(str(tmp_path / "a"), b"new")
    assert caught.value.filename == str(tmp_path / "a")
    assert (tmp_path / "a").is_symlink()


def test_accepts_names_of_the_greatest_length(tmp_path: Path) -> None:
    target = tmp_path / ("大" * 85)
    write(str(target), b"new")
    assert target.read_bytes() == b"new"


def test_errors_name_the_file_as_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError) as missing:
        write("missing/rows", b"")
    assert missing.value.filename == "missing/rows"

    def fails(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO), "from", None, "to")

    monkeypatch.setattr(os, "replace", fails)
    with pytest.raises(OSError, match="Input/output error: 'rows'"):
        write("rows", b"")
    assert not list(tmp_path.iterdir())


def test_live_rows_are_written_into_the_file_itself(tmp_path: Path) -> None:
    target = tmp_path / "rows"
    target.write_bytes(FORMER)
    with open_output(str(target), live=True) as file:
        file.write(b"new")
        file.flush()
        assert target.read_bytes() == b"new"
    assert [path.name for path in tmp_path.iterdir()] == ["rows"]


# Interrupted ---------------------------------------------------------------------------------------------------------


@contextmanager
def writing(folder: Path, output: str) -> Iterator[subprocess.Popen[bytes]]:
    """A command that has read a capture, and waits for more of it, with its output begun."""
    pipe = folder / "pipe"
    os.mkfifo(pipe)
    command = [*COMMAND, "capture", str(pipe), "-o", output]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder) as process:
        try:
            with pipe.open("wb") as capture:
                capture.write(CAPTURE.read_bytes())
                capture.flush()
                deadline = time.monotonic() + WAIT_S
                while not list(folder.glob(f".{output}.*.tmp")):
                    assert time.monotonic() < deadline
                    time.sleep(0.01)
                yield process
        finally:
            process.kill()


@pytest.mark.usefixtures("terminal_signals")
@pytest.mark.slow
@pytest.mark.parametrize("former", [None, FORMER], ids=["new", "replaced"])
@pytest.mark.parametrize("name", ["rows.parquet", "rows.csv"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda one: one.name)
def test_an_interrupted_command_leaves_the_former_file(
    tmp_path: Path, number: signal.Signals, name: str, former: bytes | None
) -> None:
    if former is not None:
        (tmp_path / name).write_bytes(former)
    with writing(tmp_path, name) as process:
        process.send_signal(number)
        out, err = process.communicate(timeout=WAIT_S)
    assert (process.returncode, out) == (128 + number, b"")
    unchanged = ": the former file is unchanged" if former else ""
    assert err.decode() == f"note: nothing was written to {name}{unchanged}\n"
    (tmp_path / "pipe").unlink()
    assert [path.read_bytes() for path in tmp_path.iterdir()] == ([former] if former else [])


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_an_interrupted_audit_leaves_the_former_report(
    inputs: Path, run: Run, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    def interrupted(*_: object) -> None:
        assert Path("report.html").read_bytes() == FORMER
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(WAIT_S)

    monkeypatch.setattr(audit, f"_{engine}", interrupted)
    Path("report.html").write_bytes(FORMER)
    result = run("audit", "logs", "--report", "report.html", "--engine", engine)
    assert (result.code, result.out) == (143, b"")
    assert result.err == "note: nothing was written to report.html: the former file is unchanged\n"
    assert Path("report.html").read_bytes() == FORMER
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.usefixtures("terminal_signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda one: one.name)
def test_an_interrupt_while_a_class_is_created_has_its_exit_code(
    inputs: Path, run: Run, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    class Descriptor:
        def __set_name__(self, owner: type, name: str) -> None:
            os.kill(os.getpid(), number)
            time.sleep(WAIT_S)

    def interrupted(*_: object) -> None:
        type("Owner", (), {"field": Descriptor()})

    monkeypatch.setattr(audit, "_local", interrupted)
    result = run("audit", "logs", "--report", "report.html")
    assert (result.code, result.out) == (128 + number, b"")
    assert result.err == "note: nothing was written to report.html\n"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rows.parquet", "rows.jsonl"])
def test_a_full_disk_leaves_the_former_file(inputs: Path, name: str) -> None:
    """A limit of the size of files fails as a full disk does, in the middle of writing."""
    import resource

    Path(name).write_bytes(FORMER)
    result = subprocess.run(
        [*COMMAND, "dump", "logs", "--print-data-log", "-o", name],
        capture_output=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},  # the limit would cut it, too
        timeout=WAIT_S,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)),
    )
    assert result.stderr.decode().splitlines() == [
        f"note: nothing was written to {name}: the former file is unchanged",
        f"error: {name}: File too large",
    ]
    assert result.returncode == 1
    assert Path(name).read_bytes() == FORMER
    assert not list(inputs.glob(".*"))


@pytest.mark.slow
def test_a_redirected_capture_is_not_live(inputs: Path) -> None:
    """Its rows are complete or not there, as those of a named file are."""
    Path("rows.jsonl").write_bytes(FORMER)
    before = Path("rows.jsonl").stat().st_ino
    line = f"{sys.executable} -m kafkawire capture - -o rows.jsonl < c.pcap"
    result = subprocess.run(["sh", "-c", line], capture_output=True, timeout=WAIT_S)
    assert result.returncode == 4, result.stderr
    assert Path("rows.jsonl").stat().st_ino != before
