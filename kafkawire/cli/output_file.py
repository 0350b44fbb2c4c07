"""The files that commands write: never over a file that the command reads, and either complete or not at all.

A command calls `check_output` before it opens anything. `open_output` writes under a temporary name beside the target,
and renames that when all is written: an error, Ctrl-C, SIGTERM or a full disk leaves the former file, or none.
"""

from __future__ import annotations

import errno
import io
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

import typer

from kafkawire.cli.formatting import printable
from kafkawire.cli.interrupt import terminating
from kafkawire.cli.notes import print_note

_BUFFER = 1 << 16
#: Characters of the target's name in the temporary one.
_NAMED = 40
_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISCHR, "a character device"),
    (stat.S_ISBLK, "a block device"),
    (stat.S_ISSOCK, "a socket"),
)


class Sink(Protocol):
    """The stream that rows are written to. An OSError names the file as the user named it, or standard output."""

    def write(self, data: bytes | memoryview, /) -> object: ...

    def flush(self) -> None: ...


# What may be written -------------------------------------------------------------------------------------------------


def check_output(
    output: str | None, inputs: Iterable[str | None], option: str = "--output", *, appended: bool = False
) -> None:
    """Refuses an output that would destroy what the command reads, or that is no regular file.

    Files are compared by device and inode: a link, a relative path or another spelling is still the same file.

    Args:
        output: the path; None and `-` are standard output, which may be redirected into an input.
        inputs: files, directories with all that is in them, and `-` for standard input. What has no inode here is
            passed over: None, a URI of another store, a path where nothing is.
        option: how the output was given.
        appended: lines are added to the file, which may be a pipe or a device as well.

    Raises:
        typer.BadParameter: the output is an input, lies in a directory that is read, or is no regular file.
    """
    found = [(path, status) for path in inputs if path is not None and (status := _input_status(path)) is not None]
    if output is None or output == "-":
        there = _stream_status(sys.stdout)
        if there is not None and stat.S_ISREG(there.st_mode):
            for path, status in found:
                if os.path.samestat(there, status):
                    raise typer.BadParameter(f"standard output is redirected into the input {path}")
        return
    there = _status(output)
    if there is not None and not appended:
        _check_regular(output, there, option)
    folders = [status for folder in _folders_of(output) if (status := _status(folder)) is not None]
    for path, status in found:
        if there is not None and os.path.samestat(there, status):
            raise typer.BadParameter(f"{output} is the same file as the input {path}", param_hint=option)
        if any(os.path.samestat(folder, status) for folder in folders):
            raise typer.BadParameter(f"{output} lies in the input {path}", param_hint=option)
        if there is not None and stat.S_ISDIR(status.st_mode):
            same = next((file for file in _files_in(path) if _is(file, there)), None)
            if same is not None:
                raise typer.BadParameter(f"{output} is the same file as the input {same}", param_hint=option)


def check_log_output(output: str | None, paths: Iterable[str | None], option: str = "--output") -> None:
    """`check_output` for inputs that are log directories or files of them.

    Beside a file that is named, others of its directories are read (indexes, checkpoints): a file with a name that only
    brokers give is never replaced.

    Args:
        output: the file to write; None and `-` are standard output.
        paths: the inputs, and other files that are read (`check_output`).
        option: the option's name, for errors.
    """
    check_output(output, paths, option)
    if output is not None and output != "-" and _status(output) is not None:
        from kafkawire.logdir.file_names import file_name

        name = os.path.basename(os.path.realpath(output))
        if file_name(os.path.basename(output)) is not None or file_name(name) is not None:
            raise typer.BadParameter(f"{output} would replace a file of a log directory", param_hint=option)


def _check_regular(output: str, there: os.stat_result, option: str) -> None:
    """Refuses what cannot be replaced by a file, and the files that standard output and error are written to."""
    for stream, name in ((sys.stdout, "standard output"), (sys.stderr, "standard error")):
        status = _stream_status(stream)
        if status is not None and os.path.samestat(there, status):
            raise typer.BadParameter(f"{output} is where {name} goes", param_hint=option)
    kind = next((name for is_kind, name in _KINDS if is_kind(there.st_mode)), None)
    if kind == "a directory":
        raise typer.BadParameter(f"{output} is a directory, not a file", param_hint=option)
    if kind is not None:
        reason = f"{output} is {kind}, not a regular file: redirect standard output there"
        raise typer.BadParameter(reason, param_hint=option)


def _folders_of(output: str) -> set[str]:
    """The directories that a file lies in, up to the root: as it is named, and where links lead to."""
    found: set[str] = set()
    for folder in (os.path.realpath(os.path.dirname(output) or os.curdir), os.path.dirname(os.path.realpath(output))):
        while folder not in found:
            found.add(folder)
            folder = os.path.dirname(folder)
    return found


def _files_in(folder: str) -> Iterator[str]:
    """The files of a directory, as `logdir.open` walks it."""
    for directory, _, names in os.walk(folder):
        yield from (os.path.join(directory, name) for name in names)


def _is(path: str, there: os.stat_result) -> bool:
    status = _status(path)
    return status is not None and os.path.samestat(status, there)


def _input_status(path: str) -> os.stat_result | None:
    if path == "-":
        return _stream_status(sys.stdin)
    if path.startswith("file://"):
        return _status(unquote(urlsplit(path).path))
    return _status(path)


def _stream_status(stream: Any) -> os.stat_result | None:
    """None where a stream is no file of the operating system."""
    try:
        return os.fstat(stream.fileno())
    except (AttributeError, OSError, ValueError):
        return None


def is_regular(stream: Any) -> bool:
    """Whether a standard stream is redirected to a regular file, which has an end."""
    status = _stream_status(stream)
    return status is not None and stat.S_ISREG(status.st_mode)


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except (OSError, ValueError):
        return None


# Writing -------------------------------------------------------------------------------------------------------------


@contextmanager
def open_output(output: str | None, *, live: bool = False) -> Iterator[Sink]:
    """Opens a file to be written from its beginning; for None and `-`, standard output.

    The file is complete when the body ends, and replaces the former one then: with its permissions, and where links
    lead to. When the body fails or is interrupted, the former file stays, with a note on standard error.

    Args:
        output: a path that `check_output` has accepted with the inputs of the command.
        live: write into the file itself, because there is no end to wait for, and each row must be visible at once.

    Raises:
        OSError: the file cannot be written; names it as it was given.
        typer.BadParameter: it is no regular file.
    """
    if output is None or output == "-":
        yield _StandardOutput()
        return
    check_output(output, ())
    if live:
        with io.BufferedWriter(_Target(output, output, 0o666, os.O_TRUNC), _BUFFER) as file:
            yield file
    else:
        with _replacing(output) as file:
            yield file


def save(path: Path, content: bytes, inputs: Iterable[str] = ()) -> None:
    """Writes a whole file, and creates the directories that it lies in; see `check_output` and `open_output`. `inputs`:
    files that it must not replace."""
    check_output(str(path), inputs)
    path.parent.mkdir(parents=True, exist_ok=True)
    with open_output(str(path)) as file:
        file.write(content)


@contextmanager
def _replacing(output: str) -> Iterator[Sink]:
    target = os.path.realpath(output)
    former = _status(target)
    if os.path.islink(target):  # links that lead to each other
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), output)
    if former is not None and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), output)
    folder, name = os.path.split(target)
    temporary = os.path.join(folder, f".{name[:_NAMED]}.{os.urandom(8).hex()}.tmp")
    mode = 0o666 if former is None else stat.S_IMODE(former.st_mode)
    with terminating():
        raw = _Target(temporary, output, mode, os.O_EXCL)
        try:
            file = io.BufferedWriter(raw, _BUFFER)
            yield file
            file.close()
            with _naming(output):
                if former is not None:
                    _take_over(temporary, former)
                os.replace(temporary, target)
        except BaseException:
            raw.close()  # first: the buffer must not be written any more
            with suppress(OSError):  # it has been renamed already; standard error is closed
                os.unlink(temporary)
                unchanged = ": the former file is unchanged" if former is not None else ""
                print_note("note", f"nothing was written to {printable(output)}{unchanged}")
            raise


def _take_over(temporary: str, former: os.stat_result) -> None:
    """Owner and permissions of the file that is replaced, as far as the user may give them."""
    if hasattr(os, "chown"):
        with suppress(OSError):
            os.chown(temporary, former.st_uid, former.st_gid)
    os.chmod(temporary, stat.S_IMODE(former.st_mode))


class _Target(io.FileIO):
    """A file whose errors name it as the user did (`shown`)."""

    def __init__(self, path: str, shown: str, mode: int, flags: int) -> None:
        self._shown = shown

        def create(path: str, given: int) -> int:
            return os.open(path, given | flags, mode)

        with _naming(shown):
            super().__init__(path, "wb", opener=create)

    def write(self, data: Any, /) -> int:
        with _naming(self._shown):
            return super().write(data)

    def close(self) -> None:
        with _naming(self._shown):
            super().close()


class _StandardOutput:
    """Standard output; errors name it."""

    def write(self, data: bytes | memoryview, /) -> int:
        with _naming("standard output"):
            return sys.stdout.buffer.write(data)

    def flush(self) -> None:
        with _naming("standard output"):
            sys.stdout.buffer.flush()


@contextmanager
def _naming(shown: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        error.filename = shown
        raise
