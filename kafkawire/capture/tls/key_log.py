"""Key logs: the secrets that TLS endpoints write for those who may read their traffic.

A line is one of

    LABEL <client random> <secret>                 NSS's format (SSLKEYLOGFILE); labels of TLS 1.2 and 1.3
    RSA <8 bytes> <premaster secret>               the first bytes of the encrypted premaster secret
    RSA Session-ID:<id> Master-Key:<secret>        agents in Java write this for sessions of TLS 1.2

all in hexadecimal. Lines that begin with `#` and empty ones are skipped. No secret is part of an error, of a `repr`, or
of any output.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import weakref
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator
from typing import TypeVar

from kafkawire.errors import KeyLogError

Name = TypeVar("Name", bound=Hashable)

CLIENT_RANDOM, PREMASTER_OF_RANDOM = "CLIENT_RANDOM", "PMS_CLIENT_RANDOM"
CLIENT_HANDSHAKE, SERVER_HANDSHAKE = "CLIENT_HANDSHAKE_TRAFFIC_SECRET", "SERVER_HANDSHAKE_TRAFFIC_SECRET"
CLIENT_TRAFFIC, SERVER_TRAFFIC = "CLIENT_TRAFFIC_SECRET_0", "SERVER_TRAFFIC_SECRET_0"
_TRAFFIC_SECRETS = frozenset((CLIENT_HANDSHAKE, SERVER_HANDSHAKE, CLIENT_TRAFFIC, SERVER_TRAFFIC))

_LABELLED = re.compile(rb"([A-Z0-9_]{1,64}) ([0-9a-fA-F]+) ([0-9a-fA-F]+)\s*")
_RSA = re.compile(rb"RSA ([0-9a-fA-F]{16}) ([0-9a-fA-F]+)\s*")
_SESSION = re.compile(rb"RSA Session-ID:([0-9a-fA-F]*) Master-Key:([0-9a-fA-F]+)\s*")
_RANDOM_BYTES = 32
MASTER_SECRET_BYTES = 48
#: Bytes of a secret of TLS 1.3: the length of its suite's hash.
_TRAFFIC_SECRET_BYTES = (32, 48)

#: A longer line is no line of a key log.
_MAX_LINE_BYTES = 4 << 10
#: Sessions of TLS 1.2 that are remembered because a later connection may resume them.
_MOST_SESSIONS = 10_000
#: Malformed lines of which the places are kept.
_MOST_PROBLEMS = 20
#: Secrets of one name, which several lines state: the first ones and the newest are tried, each.
_MOST_OF_A_NAME = 16
_READ_BYTES = 1 << 20
#: A key log with more is not read further: a pipe may have no end.
_MOST_BYTES, _MOST_LINES = 1 << 30, 10_000_000
_NO_LINE = "is not a line of a key log"


class _Tally:
    """The lines of one key log: how many there are, how many are of a form, and a sentence for each malformed one."""

    def __init__(self) -> None:
        self.lines = self.recognized = 0
        self.malformed: list[str] = []

    @property
    def foreign(self) -> bool:
        """Whether the file is no key log at all."""
        return self.lines > self.recognized == 0

    def problems(self, name: str) -> list[str]:
        if not self.foreign:
            return self.malformed
        return [f"{name} is not a TLS key log: no line of {self.lines:,} is of its format"]


class Secrets:
    """The secrets of key logs, and of sessions that later connections of the capture resume.

    Attributes:
        count: number of secrets that were read.
        malformed: number of malformed lines.
        grows: secrets may still come, so that records without theirs wait for them.

    Args:
        files: key logs; read when they are first needed, and again from where they ended when a secret is missing.
        grows: more may be written to the files, or follow in the capture itself.
    """

    def __init__(self, files: Iterable[KeyLogFile] = (), *, grows: bool = False) -> None:
        self.count = self.malformed = 0
        self.grows = grows
        self._tallies: dict[str, _Tally] = {}
        self._files = list(files)
        self._by_random: dict[tuple[str, bytes], tuple[bytes, ...]] = {}
        self._premasters: dict[bytes, tuple[bytes, ...]] = {}
        self._sessions: dict[bytes, tuple[bytes, ...]] = {}
        self._resumable: OrderedDict[bytes, tuple[bytes, ...]] = OrderedDict()

    def __repr__(self) -> str:
        return f"<Secrets: {self.count}>"

    @property
    def problems(self) -> list[str]:
        """One sentence for each malformed line, with its place, and for each file without any line of a key log."""
        found = [sentence for name, tally in self._tallies.items() for sentence in tally.problems(name)]
        return found[:_MOST_PROBLEMS]

    @property
    def refused(self) -> str | None:
        """The sentence for the first file that is no key log at all; None where each is one, or has no line yet."""
        refused = (tally.problems(file.name)[0] for file in self._files if (tally := self._tally(file.name)).foreign)
        return next(refused, None)

    @property
    def hopeless(self) -> bool:
        """Whether there is no secret, and none will come."""
        return not (self.count or self.grows)

    def read(self) -> None:
        """Reads what the files have gained. Raises OSError, with the file's name; KeyLogError as `KeyLogFile.lines`."""
        for file in self._files:
            for number, line in file.lines(final=not self.grows):
                self._line(line, file.name, number)

    def add(self, text: bytes, name: str) -> None:
        """Reads the lines of a whole key log.

        Args:
            name: of its place, for problems.
        """
        for number, line in enumerate(text.splitlines(), 1):
            self._line(line, name, number)

    def traffic_secrets(self, label: str, random: bytes) -> tuple[bytes, ...]:
        """The secrets of TLS 1.3 with that label, of the connection with that client random; one of them is right."""
        return self._by_random.get((label, random), ())

    def master_secrets(self, random: bytes, sessions: Iterable[bytes]) -> tuple[bytes, ...]:
        """The master secrets that a connection of TLS 1.2 may have, those of its client random first.

        Args:
            random: of its client.
            sessions: the session ids and tickets that name its session.
        """
        found = [self._by_random.get((CLIENT_RANDOM, random), ())]
        for session in filter(None, sessions):
            found += self._sessions.get(session, ()), self._resumable.get(session, ())
        return tuple(dict.fromkeys(secret for secrets in found for secret in secrets))

    def premaster_secrets(self, random: bytes, encrypted: bytes) -> tuple[bytes, ...]:
        """The premaster secrets that a connection may have.

        Args:
            random: of its client.
            encrypted: the first bytes of the encrypted secret.
        """
        return self._by_random.get((PREMASTER_OF_RANDOM, random), ()) + self._premasters.get(encrypted, ())

    def remember(self, session: bytes, masters: tuple[bytes, ...]) -> None:
        """Keeps the master secrets that a session may have, by its id or ticket."""
        if session:
            self._resumable[session] = masters
            self._resumable.move_to_end(session)
            if len(self._resumable) > _MOST_SESSIONS:
                self._resumable.popitem(last=False)

    def _line(self, line: bytes, name: str, number: int) -> None:
        stripped = line.strip()
        if not stripped or stripped.startswith(b"#"):
            return
        problem = _NO_LINE
        if len(line) <= _MAX_LINE_BYTES:
            try:
                problem = self._stored(stripped)
            except ValueError:  # an odd number of digits
                problem = "has half a byte at its end"
        tally = self._tally(name)
        tally.lines += 1
        tally.recognized += problem != _NO_LINE
        if problem:
            self.malformed += 1
            if len(tally.malformed) < _MOST_PROBLEMS:
                tally.malformed.append(f"{name}, line {number} {problem}")

    def _tally(self, name: str) -> _Tally:
        return self._tallies.setdefault(name, _Tally())

    def _stored(self, line: bytes) -> str:
        """Stores the secret of a line; returns what is wrong with it, or nothing."""
        if found := _SESSION.fullmatch(line):
            session, secret = (bytes.fromhex(part.decode()) for part in found.groups())
            if len(secret) != MASTER_SECRET_BYTES:
                return _wrong_size(secret, MASTER_SECRET_BYTES)
            if session:
                self.count += 1
                _keep(self._sessions, session, secret)
            return ""
        if found := _RSA.fullmatch(line):
            self.count += 1
            _keep(self._premasters, bytes.fromhex(found[1].decode()), bytes.fromhex(found[2].decode()))
            return ""
        found = _LABELLED.fullmatch(line)
        if found is None:
            return _NO_LINE
        label = found[1].decode()
        random, secret = (bytes.fromhex(part.decode()) for part in found.groups()[1:])
        if len(random) != _RANDOM_BYTES:
            return f"has a client random of {len(random)} bytes, not {_RANDOM_BYTES}"
        if label == CLIENT_RANDOM and len(secret) != MASTER_SECRET_BYTES:
            return _wrong_size(secret, MASTER_SECRET_BYTES)
        if label in _TRAFFIC_SECRETS and len(secret) not in _TRAFFIC_SECRET_BYTES:
            return _wrong_size(secret, *_TRAFFIC_SECRET_BYTES)
        self.count += 1
        # Exporter secrets, those of early data, and those of QUIC decrypt nothing here.
        if label in _TRAFFIC_SECRETS or label in (CLIENT_RANDOM, PREMASTER_OF_RANDOM):
            _keep(self._by_random, (label, random), secret)
        return ""


def _keep(secrets: dict[Name, tuple[bytes, ...]], name: Name, secret: bytes) -> None:
    """Adds a secret to those of its name: any of them may be the right one, and a record shows which."""
    known = secrets.get(name, ())
    if secret not in known:
        secrets[name] = (*known[: _MOST_OF_A_NAME - 1], secret)


def _wrong_size(secret: bytes, *sizes: int) -> str:
    return f"has a secret of {len(secret)} bytes, not {' or '.join(map(str, sizes))}"


class KeyLogFile:
    """A key log that may grow: a file, or a pipe. `name`: its path, as given."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.name = os.fspath(path)
        self._position = self._number = 0
        self._rest = b""
        self._opened = False
        self._pipe: int | None = None

    def lines(self, *, final: bool = False) -> Iterable[tuple[int, bytes]]:
        """Number, from 1, and text of each line that the file has gained since the last call.

        Args:
            final: also a last line that has no end.

        Raises OSError; KeyLogError for a device, and for more bytes or lines than a key log has.
        """
        for data in self._gained(wait=final):
            self._position += len(data)
            if self._position > _MOST_BYTES:
                raise KeyLogError(f"{self.name} has more than {_MOST_BYTES:,} bytes: no TLS key log is so long")
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                yield self._next(line)
            # A line that is too long is kept only up to the length that identifies it as such.
            self._rest = self._rest[: _MAX_LINE_BYTES + 1]
        if final and self._rest:
            rest, self._rest = self._rest, b""
            yield self._next(rest)

    def _gained(self, *, wait: bool) -> Iterator[bytes]:
        """The bytes that were added to the file since the last call, in parts.

        Args:
            wait: read a pipe to its end; otherwise what is in it now, though it may have no writer yet.
        """
        found = os.stat(self.name)
        if stat.S_ISFIFO(found.st_mode) and not wait:
            yield from self._in_pipe()
        elif not self._opened or found.st_size > self._position:  # a pipe has no size
            self._opened = True
            if stat.S_ISCHR(found.st_mode) or stat.S_ISBLK(found.st_mode):
                raise KeyLogError(f"{self.name} is a device: a TLS key log is a file or a pipe")
            with open(self.name, "rb") as file:
                if self._position:
                    file.seek(self._position)
                while data := file.read(_READ_BYTES):
                    yield data

    def _in_pipe(self) -> Iterator[bytes]:
        if self._pipe is None:
            self._pipe = os.open(self.name, os.O_RDONLY | os.O_NONBLOCK)
            weakref.finalize(self, os.close, self._pipe)
        with contextlib.suppress(BlockingIOError):  # nothing more is in it now
            while data := os.read(self._pipe, _READ_BYTES):
                yield data

    def _next(self, line: bytes) -> tuple[int, bytes]:
        self._number += 1
        if self._number > _MOST_LINES:
            raise KeyLogError(f"{self.name} has more than {_MOST_LINES:,} lines: no TLS key log is so long")
        return self._number, line
