"""Every exception of the package. Each has the place of the error, what was expected there and what was found.

`KafkaWireError` is the base class: one `except` clause catches all exceptions that the package raises on purpose. This
module imports no other module of the package, so that each of them can import it.
"""

from __future__ import annotations

from typing import Any


class KafkaWireError(Exception):
    """Base class of the package's exceptions. Each can be pickled (Spark workers, multiprocessing) and copied."""

    def __reduce__(self) -> tuple[object, ...]:
        # Exception's own calls the class with `args`, which are not the arguments of every class.
        return _rebuild, (type(self), self.args, dict(self.__dict__))


class _PlacedError(KafkaWireError, ValueError):
    """An error at a place of a message."""

    path: str
    message: str
    version: int | None

    def _place(self) -> str:
        """The prefix of the error text: the message, its version and the path, as far as they are known."""
        what = self.message + (f" v{self.version}" if self.message and self.version is not None else "")
        place = ", ".join(part for part in (what, self.path) if part)
        return f"{place}: " if place else ""


class DecodeError(_PlacedError):
    """Bytes that do not follow the layout.

    Attributes:
        path: place inside the message, in names of fields: `topics[3].partitions[0].error_code`. Empty for the message
            as a whole.
        offset: byte offset in the given buffer at which the invalid value begins.
        expected: what the layout requires there.
        found: what is there instead.
        message: name of the message, for example `DescribeProducersResponse`. Empty for a format without a schema.
        version: version of the message; None for a format without versions.
        partial: the message as far as it was read: fields at and after the invalid value have their defaults, an array
            ends with the element that holds it. The whole message where only bytes after it are invalid. None for a
            format without a schema.
    """

    partial: Any = None

    def __init__(
        self,
        *,
        expected: str,
        found: str,
        offset: int,
        path: str = "",
        message: str = "",
        version: int | None = None,
    ) -> None:
        super().__init__(expected, found, offset, path, message, version)
        self.expected = expected
        self.found = found
        self.offset = offset
        self.path = path
        self.message = message
        self.version = version

    def __str__(self) -> str:
        return f"{self._place()}at byte {self.offset}: expected {self.expected}, found {self.found}"


class EncodeError(_PlacedError):
    """A value that the layout cannot carry.

    Attributes:
        path: place of the value inside the message, `topics[3].name`.
        reason: why the layout cannot carry it.
        message, version: name and version of the message that was being encoded.
    """

    def __init__(self, reason: str, *, path: str = "", message: str = "", version: int | None = None) -> None:
        super().__init__(reason, path, message, version)
        self.reason = reason
        self.path = path
        self.message = message
        self.version = version

    def __str__(self) -> str:
        return self._place() + self.reason


class JsonError(EncodeError):
    """A JSON value that is not in the form which Kafka's `*JsonConverter` classes read."""


class UnsupportedVersionError(KafkaWireError, ValueError):
    """A version that the message does not have.

    Attributes:
        message: the message's name.
        version: the requested version.
        valid_versions: the versions that the message has.
    """

    def __init__(self, message: str, version: object, valid_versions: range) -> None:
        super().__init__(message, version, valid_versions)
        self.message = message
        self.version = version
        self.valid_versions = valid_versions

    def __str__(self) -> str:
        low, high = self.valid_versions.start, self.valid_versions.stop - 1
        return f"{self.message} has no version {self.version}; it has {low if low == high else f'{low}-{high}'}"


class SchemaError(KafkaWireError, ValueError):
    """Message schemas with mistakes.

    Attributes:
        problems: all mistakes that were found, one `Problem` each.
        file, path, reason: those of the first problem.
    """

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__(problems)
        self.problems = problems
        first = problems[0]
        self.file, self.path, self.reason = first.file, first.path, first.reason

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)


class Problem:
    """One mistake in a schema.

    Attributes:
        file: the file, relative to the loaded folder.
        path: place inside its JSON (`fields[2].type`). Empty for the message as a whole.
        reason: what is wrong there.
        line, column: the same place in the text, from 1; 0 where it is unknown. Two problems that differ only in these
            are equal.
    """

    __slots__ = ("column", "file", "line", "path", "reason")

    def __init__(self, file: str, path: str, reason: str, line: int = 0, column: int = 0) -> None:
        self.file = file
        self.path = path
        self.reason = reason
        self.line = line
        self.column = column

    def __str__(self) -> str:
        position = f"line {self.line}, column {self.column}" if self.line else ""
        return ": ".join(part for part in (self.file, position, self.path, self.reason) if part)

    def __repr__(self) -> str:
        return f"Problem({self.file!r}, {self.path!r}, {self.reason!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Problem) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[str, str, str]:
        return self.file, self.path, self.reason


class ForeignFileError(KafkaWireError):
    """A file that generated code would replace and that the generator did not write.

    Attributes:
        files: all of these files.
    """

    def __init__(self, files: list[str]) -> None:
        super().__init__(files)
        self.files = files

    def __str__(self) -> str:
        return f"{self.files[0]} was not generated ({len(self.files)} files in all): nothing is overwritten"


def ended_at(ended: int, size: int) -> str:
    """The error text for a file that became shorter while it was read.

    Args:
        ended: the file's size when its end was reached, in bytes.
        size: its size when it was opened, in bytes.
    """
    return f"ended at {ended}, was {size} when opened"


class RecordError(DecodeError):
    """A record batch, an index entry or a log file that is damaged at `offset`."""


class CaptureError(DecodeError):
    """A capture file whose container (pcap, pcapng) is damaged at `offset`."""


class ScanError(KafkaWireError):
    """Places that a scan could not read; raised after its last row.

    Attributes:
        problems: rows of damage, the first ones.
        count: how many there were.
        rows: number of rows that were read.
    """

    def __init__(self, problems: tuple[Any, ...], count: int, rows: int) -> None:
        super().__init__(problems, count, rows)
        self.problems = problems
        self.count = count
        self.rows = rows

    def __str__(self) -> str:
        first = self.problems[0]
        place = f"{first.topic}-{first.partition}: " if first.topic is not None else ""
        if first.file is not None:
            place = f"{first.file} at byte {first.position}: "
        more = f" (and {self.count - 1} more)" if self.count > 1 else ""
        read = f"{self.rows} row{'s' * (self.rows != 1)} were read"
        return f'{place}{first.reason}: {first.detail}{more}; {read}. errors="collect" lists problems instead'


class KeyLogError(KafkaWireError, ValueError):
    """A file that is no TLS key log: none of its lines is of that form."""


class BackendError(KafkaWireError, RuntimeError):
    """`KAFKAWIRE_BACKEND` names an engine that is not installed, or only the native engine does what pure Python is
    asked for."""


class GeneratedCodeError(KafkaWireError, ImportError):
    """A generated package that was made for another interface than that of the installed `kafkawire.runtime`.

    Attributes:
        package: the name of the package.
        compiler: the version of kafkawire that generated it.
        wanted, present: the two interfaces, each a major and a minor number.
    """

    def __init__(self, package: str, compiler: str, wanted: tuple[int, int], present: tuple[int, int]) -> None:
        super().__init__(package, compiler, wanted, present)
        self.package = package
        self.compiler = compiler
        self.wanted = wanted
        self.present = present

    def __str__(self) -> str:
        wanted, present = ("{}.{}".format(*numbers) for numbers in (self.wanted, self.present))
        newer = f"install kafkawire {self.compiler} or newer, or " if self.wanted > self.present else ""
        return (
            f"the package {self.package} was generated by kafkawire {self.compiler} for interface {wanted} of "
            f"kafkawire.runtime, and the installed kafkawire has interface {present}: {newer}generate the package "
            "again with `kafkawire schema generate`"
        )


class MissingExtraError(KafkaWireError, ImportError):
    """A feature whose optional dependency is not installed.

    Attributes:
        what: the feature.
        extra: the extra that installs the dependency; the text has the command that does.
    """

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(what, extra)
        self.what = what
        self.extra = extra

    def __str__(self) -> str:
        from kafkawire._installation import install_command

        return f'{self.what} needs the "{self.extra}" extra: {install_command(self.extra)}'


def _rebuild(cls: type[KafkaWireError], args: tuple[object, ...], attributes: dict[str, object]) -> KafkaWireError:
    error = cls.__new__(cls, *args)
    error.__dict__.update(attributes)
    return error
