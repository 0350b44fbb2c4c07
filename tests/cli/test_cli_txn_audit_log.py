"""The audit log: what is recorded before and after a request, and of attempts that were refused."""

from __future__ import annotations

import errno
import json
import os
import signal
import stat
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from kafkawire.cli import main, txn_audit_log
from kafkawire.cli.txn_audit_log import default_path
from kafkawire.client.diagnosis.cluster_reading import clock_ms
from kafkawire.messages import (
    WriteTxnMarkersRequest,
)
from tests.cli.ending import abort, lines, marker, sent, terminate
from tests.cli.harmless import harmless
from tests.cli.runner import Run
from tests.cli.terminal import COMMAND
from tests.client.partition_script import END, NAME, START, Coordinator, PartitionBroker

pytestmark = pytest.mark.usefixtures("state_home", "terminal_signals")


def test_abort_is_recorded_before_and_after(run: Run, partition: PartitionBroker, state_home: Path) -> None:
    partition.log.timestamp = clock_ms()
    result = abort(run, partition, "--yes", "--force", "requested by the \x1b[31mowner")
    path = state_home / "kafkawire" / "txn-audit.jsonl"
    assert default_path() == path
    assert result.err == f"note: recorded in {path}\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert harmless(path.read_text())
    before, after = lines(path)
    assert (before["phase"], after["phase"]) == ("before", "after")
    assert before["id"] == after["id"]
    assert before["time"] <= after["time"]
    assert before["operation"] == "abort"
    assert before["reason"] == "requested by the \x1b[31mowner"
    assert before["target"]["reason"] == "young"
    assert before["target"]["evidence"]
    assert before["request"]["body"]["markers"][0]["producerId"] == 7
    assert before["bootstrap_server"] == partition.address
    assert before["user"]
    assert before["host"]
    assert before["result"] is None
    assert (after["result"]["outcome"], after["result"]["marker_offset"]) == ("aborted", END)
    assert after["target"] == before["target"]
    assert not {"finding", "call"} & set(after["result"])  # printed once


def test_audit_log_is_appended_to_and_has_to_be_writable(
    run: Run, partition: PartitionBroker, tmp_path: Path, state_home: Path
) -> None:
    """A file that is there is kept; one that cannot be written stops it all before anything is sent."""
    mine = tmp_path / "mine.jsonl"
    mine.write_text('{"phase":"mine"}\n')
    for path, code in ((tmp_path / "no" / "folder" / "a.jsonl", 1), (tmp_path, 1), (mine, 0)):
        result = abort(run, partition, "--yes", "--audit-log", path)
        assert (result.code, sent(partition)) == (code, 0 if code else 1)
        assert str(path) in result.err
    assert [line["phase"] for line in lines(mine)] == ["mine", "before", "after"]
    assert not state_home.exists()


def test_failed_abort_is_recorded(run: Run, partition: PartitionBroker, state_home: Path) -> None:
    partition.log.code = 31
    result = abort(run, partition, "--yes")
    assert result.code == 1
    assert json.loads(result.text)["Outcome"] == "not_written"
    note, error = result.err.splitlines()
    assert note.startswith("note: recorded in ")
    assert error.startswith("error: orders-0, offset 40: not_written: no marker was written: CLUSTER_AUTH")
    assert error.endswith("the principal needs Alter or ClusterAction on the cluster")
    _, after = lines(state_home / "kafkawire" / "txn-audit.jsonl")
    assert after["result"]["outcome"] == "not_written"


def test_force_terminate_is_recorded(run: Run, coordinator: Coordinator, state_home: Path) -> None:
    assert terminate(run, coordinator, "--yes").code == 0
    before, after = lines(state_home / "kafkawire" / "txn-audit.jsonl")
    assert (before["operation"], before["target"]["transactional_id"]) == ("force-terminate", NAME)
    assert before["request"]["body"]["transactionalId"] == NAME
    assert (after["result"]["outcome"], after["result"]["producer"]["producer_epoch"]) == ("terminated", 5)


# Refused attempts -----------------------------------------------------------------------------------------------------


def test_refused_attempts_are_recorded(run: Run, partition: PartitionBroker, state_home: Path) -> None:
    """Who, when, the options, and why it was refused."""
    partition.log.timestamp = clock_ms()
    result = abort(run, partition, "--yes")
    assert result.code == 1
    path = state_home / "kafkawire" / "txn-audit.jsonl"
    assert result.err.startswith(f"note: recorded in {path}\n")
    partition.log.append_marker(marker())
    abort(run, partition, "--yes")
    abort(run, partition, "--partition", 0, "--start-offset", 41, "--yes", "--force", "why", one=False)
    young, done, other = lines(path)
    assert [line["phase"] for line in (young, done, other)] == ["refused"] * 3
    assert len({line["id"] for line in (young, done, other)}) == 3
    assert (young["operation"], young["request"]) == ("abort", None)
    assert young["asked"] == {"topics": ["orders"], "partition": 0, "start_offset": START}
    assert (young["target"]["reason"], young["result"]["reason"]) == ("young", "young")
    assert "--force REASON" in young["result"]["text"]
    assert all(young[who] for who in ("time", "user", "host", "version"))
    assert (done["target"], done["result"]["reason"]) == (None, "already_aborted")
    assert f"ABORT marker at offset {END}" in done["result"]["text"]
    assert (other["reason"], other["asked"]["start_offset"]) == ("why", 41)


def test_refused_dry_runs_are_not_recorded(run: Run, partition: PartitionBroker, state_home: Path) -> None:
    partition.log.timestamp = clock_ms()
    assert abort(run, partition, "--dry-run").code == 1
    assert not state_home.exists()


def test_unconfirmed_attempts_are_recorded(
    partition: PartitionBroker, coordinator: Coordinator, terminal: Any, state_home: Path
) -> None:
    for broker, command in ((partition, abort), (coordinator, terminate)):
        terminal("n\n")
        assert command(lambda *arguments: main([str(one) for one in arguments]), broker) == 1
    aborting, ending = lines(state_home / "kafkawire" / "txn-audit.jsonl")
    assert (aborting["result"]["reason"], aborting["target"]["producer_id"]) == ("not_confirmed", 7)
    assert (ending["result"]["reason"], ending["asked"]) == ("not_confirmed", {"transactional_id": NAME})
    assert ending["target"]["state"] == "Ongoing"


def test_a_refused_force_terminate_is_recorded(run: Run, coordinator: Coordinator, state_home: Path) -> None:
    coordinator.states = ["PrepareCommit"]
    assert terminate(run, coordinator, "--yes").code == 1
    coordinator.states = ["Empty"]
    assert terminate(run, coordinator, "--yes").code == 3  # in the partition, it hangs
    stuck, over = lines(state_home / "kafkawire" / "txn-audit.jsonl")
    assert (stuck["phase"], stuck["operation"]) == ("refused", "force-terminate")
    assert (stuck["asked"], stuck["result"]["reason"]) == ({"transactional_id": NAME}, "stuck_prepare")
    assert (over["phase"], over["result"]["reason"]) == ("refused", "nothing_open")


# Signals --------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("one", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT], ids=lambda one: one.name)
def test_a_signal_after_sending_is_recorded_as_not_verified(
    partition: PartitionBroker, tmp_path: Path, one: signal.Signals
) -> None:
    """Between the marker and its answer the outcome is not known; the record states that."""
    sent_it = threading.Event()

    def silent(_: Any) -> Any:
        sent_it.set()
        return ...

    partition.on[WriteTxnMarkersRequest] = silent
    log = tmp_path / "audit.jsonl"
    which = ("--topic", "orders", "--partition", "0", "--start-offset", str(START), "--confirm-after", "0.01")
    line = ("txn", "abort", "--bootstrap-server", partition.address, *which, "--yes", "--audit-log", str(log))
    with subprocess.Popen([*COMMAND, *line], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert sent_it.wait(60)
        process.send_signal(one)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + one
    assert out == b""
    assert err.decode() == f"note: recorded in {log}\n"
    before, after = lines(log)
    assert (before["phase"], before["result"], after["phase"]) == ("before", None, "after")
    assert (after["id"], after["result"]["outcome"]) == (before["id"], "not_verified")
    name = "CancelledError" if one is signal.SIGINT else one.name
    assert after["result"]["problem"] == f"interrupted ({name}): whether it was carried out is not known"


@pytest.mark.slow
def test_nothing_is_sent_where_only_a_part_of_the_line_can_be_written(
    partition: PartitionBroker, tmp_path: Path
) -> None:
    """The system writes what fits, which is no error yet."""
    resource = pytest.importorskip("resource")
    log = tmp_path / "audit.jsonl"
    which = ("--topic", "orders", "--partition", "0", "--start-offset", str(START), "--confirm-after", "0.01")
    line = ("txn", "abort", "--bootstrap-server", partition.address, *which, "--yes", "--audit-log", str(log))
    done = subprocess.run(
        [*COMMAND, *line],
        capture_output=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},  # the limit would cut it, too
        timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)),
    )
    assert log.stat().st_size == 100
    assert (done.returncode, done.stdout, sent(partition)) == (1, b"", 0)
    assert done.stderr.endswith(b"File too large\n")


# Logs that cannot be written ------------------------------------------------------------------------------------------


def full() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class FullDisk:
    """A file of which writes fail, from the line with number `line` on, after a part of it."""

    def __init__(self, file: Any, line: int, error: OSError) -> None:
        self._file = file
        self._left = line
        self._error = error

    def write(self, data: bytes) -> int:
        self._left -= 1
        if self._left > 0:
            return int(self._file.write(data))
        if self._left == 0 and self._error.errno == errno.ENOSPC:
            return int(self._file.write(data[:20]))
        raise self._error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def failing(monkeypatch: pytest.MonkeyPatch, line: int, error: OSError) -> None:
    opened = txn_audit_log._opened
    monkeypatch.setattr(txn_audit_log, "_opened", lambda path: FullDisk(opened(path), line, error))


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EPIPE, errno.EIO])
def test_an_outcome_that_cannot_be_recorded_is_printed(
    run: Run, partition: PartitionBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """The marker is in the log of the partition: that is printed, and that it is not recorded; exit code 1."""
    log = tmp_path / "audit.jsonl"
    failing(monkeypatch, 2, OSError(code, os.strerror(code)))
    result = abort(run, partition, "--yes", "--audit-log", log)
    assert (result.code, sent(partition)) == (1, 1)
    row = json.loads(result.text)
    assert (row["Outcome"], row["MarkerOffset"], row["Problem"]) == ("aborted", END, None)
    why = f"not recorded in {log}: {os.strerror(code)}"
    assert result.err == f"note: {why}\nerror: orders-0, offset 40: aborted, {why}\n"
    assert json.loads(log.read_text().splitlines()[0])["phase"] == "before"


def test_a_termination_that_cannot_be_recorded_is_printed(
    run: Run, coordinator: Coordinator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "audit.jsonl"
    failing(monkeypatch, 2, full())
    result = terminate(run, coordinator, "--yes", "--audit-log", log)
    assert (result.code, sent(coordinator)) == (1, 1)
    assert json.loads(result.text)["Outcome"] == "terminated"
    assert f"error: transactional id {NAME}: terminated, not recorded in {log}: No space left" in result.err


def test_a_failure_that_cannot_be_recorded_names_both(
    run: Run, partition: PartitionBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition.log.code = 31
    failing(monkeypatch, 2, full())
    result = abort(run, partition, "--yes", "--audit-log", tmp_path / "audit.jsonl")
    assert result.code == 1
    assert "not_written: no marker was written: CLUSTER_AUTHORIZATION_FAILED" in result.err
    assert result.err.endswith(f"; not recorded in {tmp_path / 'audit.jsonl'}: No space left on device\n")


def test_a_refusal_that_cannot_be_recorded_stays_the_refusal(
    run: Run, partition: PartitionBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition.log.timestamp = clock_ms()
    failing(monkeypatch, 1, full())
    result = abort(run, partition, "--yes", "--audit-log", tmp_path / "audit.jsonl")
    note, error = result.err.splitlines()
    assert result.code == 1
    assert note == f"note: not recorded in {tmp_path / 'audit.jsonl'}: No space left on device"
    assert "not_hanging (young)" in error


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EPIPE])
def test_nothing_is_sent_that_cannot_be_recorded(
    run: Run, partition: PartitionBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """A closed pipe, too, is an error and not the end of a pipeline."""
    log = tmp_path / "audit.jsonl"
    failing(monkeypatch, 1, OSError(code, os.strerror(code)))
    result = abort(run, partition, "--yes", "--audit-log", log)
    assert (result.code, result.text, sent(partition)) == (1, "", 0)
    assert f"nothing was sent, for it cannot be recorded in {log}: {os.strerror(code)}" in result.err


def test_nothing_is_sent_before_its_line_is_on_the_disk(
    run: Run, partition: PartitionBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system has taken the line, and the disk does not."""
    log = tmp_path / "audit.jsonl"

    def failed(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", failed)
    result = abort(run, partition, "--yes", "--audit-log", log)
    assert (result.code, result.text, sent(partition)) == (1, "", 0)
    assert f"nothing was sent, for it cannot be recorded in {log}: {os.strerror(errno.EIO)}" in result.err


@pytest.mark.parametrize("torn", ["", '{"phase":"before"}', '{"phase":"before"}\n', '{"phase":"bef', "\n"])
def test_a_torn_line_does_not_swallow_the_next(run: Run, partition: PartitionBroker, tmp_path: Path, torn: str) -> None:
    """A crash leaves a line without its end."""
    log = tmp_path / "audit.jsonl"
    log.write_text(torn)
    assert abort(run, partition, "--yes", "--audit-log", log).code == 0
    first = log.read_text()[: len(torn)]
    rest = log.read_text()[len(torn) :]
    assert first == torn
    assert rest.startswith("\n") == (torn not in ("", "\n") and not torn.endswith("\n"))
    assert [json.loads(line)["phase"] for line in rest.splitlines() if line] == ["before", "after"]


def test_a_log_that_may_only_be_written_is_taken_for_torn(
    run: Run, partition: PartitionBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether its last line has an end cannot be read: an empty line costs nothing."""
    log = tmp_path / "audit.jsonl"
    log.write_text('{"phase":"bef')
    monkeypatch.setattr(txn_audit_log, "_opened", lambda path: open(path, "ab", buffering=0))  # noqa: SIM115
    assert abort(run, partition, "--yes", "--audit-log", log).code == 0
    torn, *rest = log.read_text().splitlines()
    assert torn == '{"phase":"bef'
    assert [json.loads(line)["phase"] for line in rest if line] == ["before", "after"]


def test_the_line_after_a_torn_one_of_its_own_is_whole(
    run: Run, three: PartitionBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that was full, and is not any more: what was refused meanwhile is a line, behind a part of one."""
    log = tmp_path / "audit.jsonl"
    failing(monkeypatch, 2, full())
    assert abort(run, three, "--yes", "--audit-log", log).code == 1
    monkeypatch.undo()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert abort(run, three, "--yes", "--audit-log", log).code == 0  # already aborted
    first, part, refused = log.read_text().splitlines()
    assert json.loads(first)["phase"] == "before"
    assert not part.endswith("}")
    assert json.loads(refused)["phase"] == "refused"


def test_a_log_that_was_deleted_meanwhile_is_made_anew(run: Run, partition: PartitionBroker, tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    write = partition.write_markers

    def deleting(request: WriteTxnMarkersRequest) -> Any:
        log.unlink()
        return write(request)

    partition.on[WriteTxnMarkersRequest] = deleting
    assert abort(run, partition, "--yes", "--audit-log", log).code == 0
    (after,) = lines(log)
    assert (after["phase"], after["result"]["outcome"]) == ("after", "aborted")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_whose_reader_is_gone(run: Run, partition: PartitionBroker, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    end = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write = partition.write_markers

    def closing(request: WriteTxnMarkersRequest) -> Any:
        os.close(end)
        return write(request)

    partition.on[WriteTxnMarkersRequest] = closing
    result = abort(run, partition, "--yes", "--audit-log", pipe)
    assert (result.code, json.loads(result.text)["Outcome"]) == (1, "aborted")
    assert f"aborted, not recorded in {pipe}: Broken pipe" in result.err
