"""The audit log of `txn abort`, `force-terminate` and `commit`: JSON lines with who changed what, why, and the result.

By default there is one file per user, `$XDG_STATE_HOME/kafkawire/txn-audit.jsonl` (`~/.local/state/...`), where the XDG
specification puts logs that outlive a program. It does not depend on the working directory, and needs no rights on the
machine. Only the user may read it. A command that is interrupted (Ctrl-C, SIGTERM, a closed terminal) appends a line
that records this; without that line it was killed (SIGKILL, power loss).

Nothing is sent before its line is on the disk. What was sent has happened, whether or not its outcome can be recorded
(a full disk, a file system that is read-only now, a closed pipe): then the command prints it, and that it is not there.
"""

from __future__ import annotations

import os
import socket
import sys
import uuid
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Annotated, Any

import msgspec
import typer

from kafkawire.cli.formatting import json_bytes, printable
from kafkawire.cli.notes import print_note
from kafkawire.cli.output import CommandRow
from kafkawire.cli.output_file import check_output
from kafkawire.errors import KafkaWireError

AuditLogOption = Annotated[
    str | None,
    typer.Option(
        "--audit-log",
        metavar="FILE",
        help="Record there who did what, as JSON lines; by default ~/.local/state/kafkawire/txn-audit.jsonl.",
    ),
]


class NotRecorded(KafkaWireError):
    """A request was not sent, because it could not be recorded."""


class AuditLogEntry(CommandRow, frozen=True, kw_only=True):
    """A line.

    Attributes:
        time: ISO 8601, UTC. `id`: the same before and after one request; `phase`: "before", "after", or "refused":
            nothing was sent.
        operation: "abort", "force-terminate" or "commit". `reason`: of `--force`.
        asked: the options that name the transaction.
        target: what was known of the transaction. `request`: what is sent. `result`: None before; of what was refused,
            the `reason` (of the verdict, not_open, already_aborted, changed, not_confirmed, ...) and the sentence.
    """

    time: str
    id: str
    phase: str
    operation: str
    user: str
    host: str
    version: str
    bootstrap_server: str
    command_config: str | None
    reason: str | None
    asked: Any
    target: Any
    request: Any
    result: Any = None


class AuditLog:
    """Open for appending as long as the command runs. Raises OSError where it cannot be opened. `lines`: how many were
    written. `problem`: why the last outcome or refusal could not be recorded, "" where it was."""

    def __init__(
        self,
        path: str | None,
        operation: str,
        bootstrap: str,
        command_config: str | None,
        reason: str | None,
        asked: dict[str, Any],
    ):
        self.path = Path(path) if path is not None else default_path()
        check_output(str(self.path), [command_config], "--audit-log", appended=True)
        if path is None:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file = _opened(self.path)
        self._operation = operation
        self._bootstrap = bootstrap
        self._command_config = command_config
        self._reason = reason
        self._asked = {name: value for name, value in asked.items() if value is not None and value is not False}
        self._id = ""
        self.lines = 0
        self.problem = ""

    def write(self, target: Any, request: Any, result: msgspec.Struct | None) -> None:
        """Appends a line, which is on the disk when this returns. Without a result it is the line before, and gets a
        new id.

        Args:
            target: what is known of the transaction.
            request: the request to its coordinator or leader.
            result: its result; None before it is sent.

        Raises:
            NotRecorded: the line before could not be written. For the line after, see `problem`.
        """
        if result is not None:
            self._append_or_note("after", target, request, _without(result, target, request))
            return
        self._id = uuid.uuid4().hex
        try:
            self._append("before", target, request, None)
        except OSError as error:
            raise NotRecorded(f"nothing was sent, for it cannot be recorded in {self.path}: {_reason(error)}") from None

    def refuse(self, target: Any, reason: str, text: str) -> None:
        """Appends a line for a request that was refused; `target` is None where nothing was found. `target`: the
        transaction, None where none was found. `reason`: the kind of refusal. `text`: the sentence of the error."""
        self._id = uuid.uuid4().hex
        self._append_or_note("refused", target, None, {"reason": reason, "text": text})

    def _append_or_note(self, phase: str, target: Any, request: Any, result: dict[str, Any]) -> None:
        try:
            self._append(phase, target, request, result)
        except OSError as error:
            self.problem = f"not recorded in {self.path}: {_reason(error)}"
        else:
            self.problem = ""

    def _append(self, phase: str, target: Any, request: Any, result: dict[str, Any] | None) -> None:
        import kafkawire

        entry = AuditLogEntry(
            time=datetime.now(UTC).isoformat(timespec="milliseconds"),
            id=self._id,
            phase=phase,
            operation=self._operation,
            user=_user(),
            host=socket.gethostname(),
            version=kafkawire.__version__,
            bootstrap_server=self._bootstrap,
            command_config=self._command_config,
            reason=self._reason,
            asked=self._asked,
            target=target,
            request=request,
            result=result,
        )
        regular = self._file.seekable()  # not a pipe or terminal
        if regular and os.fstat(self._file.fileno()).st_nlink == 0:  # deleted: lines written to it would be lost
            self._file.close()
            self._file = _opened(self.path)
        line = json_bytes(entry) + b"\n"
        if regular and _torn(self._file):
            line = b"\n" + line
        while line:  # a full disk accepts a part first, and fails at the next write
            line = line[self._file.write(line) :]
        if regular:
            os.fsync(self._file.fileno())
        self.lines += 1

    def print_path(self) -> None:
        """Prints the path of the log, if anything was recorded, and what was not."""
        if self.problem:
            print_note("note", printable(self.problem))
        elif self.lines:
            print_note("note", f"recorded in {printable(str(self.path))}")

    def close(self) -> None:
        self._file.close()


def default_path() -> Path:
    """The default path of the log: `kafkawire/txn-audit.jsonl` in the user's state directory (XDG)."""
    state = os.environ.get("XDG_STATE_HOME", "")
    home = Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state"
    return home / "kafkawire" / "txn-audit.jsonl"


def _without(result: msgspec.Struct, *known: Any) -> dict[str, Any]:
    """The fields of a result that the line does not have already."""
    fields = {name: getattr(result, name) for name in result.__struct_fields__}
    return {name: value for name, value in fields.items() if not any(value is one for one in known)}


def _opened(path: Path) -> IO[bytes]:
    """Opens the log for appending; a file for reading, too, if that is permitted. A pipe is opened for writing only, so
    that its closing is noticed."""
    if path.is_file() or not path.exists():
        with suppress(PermissionError):
            return open(path, "a+b", buffering=0, opener=_private)
    return open(path, "ab", buffering=0, opener=_private)


def _torn(file: IO[bytes]) -> bool:
    """Whether the last line has no end, or may have none: a line after it would be a part of it."""
    if file.seek(0, os.SEEK_END) == 0:
        return False
    if not file.readable():
        return True
    file.seek(-1, os.SEEK_END)
    return file.read(1) != b"\n"


def _reason(error: OSError) -> str:
    return error.strerror or str(error)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _user() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # a user id without a name, as in containers
        return str(os.getuid()) if sys.platform != "win32" else "unknown"
