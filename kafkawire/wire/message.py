"""`Message`, the base class of every generated message, and `Codec`, which reads and writes its bytes.

A message is a frozen value without a version; the version is given to `decode` and `encode`. An engine runs first, the
native one or the generated functions; when it cannot read or write something, the interpreter replays it and raises an
error that explains why. Code that most programs never use is imported where it is used.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, ParamSpec, Protocol, Self, TypeVar

import msgspec

from kafkawire.errors import DecodeError, UnsupportedVersionError
from kafkawire.wire import fields
from kafkawire.wire.backend import native
from kafkawire.wire.generated import Decode, Encode, Generated, owned
from kafkawire.wire.layout import BYTES, KIND_MASK, RECORDS, STRUCT, Layout, Table
from kafkawire.wire.lowering import is_guarded, lower
from kafkawire.wire.spec import MessageSpec, StructSpec
from kafkawire.wire.unsupported import Unsupported, fitted, unsupported
from kafkawire.wire.values import Buffer, Input, TaggedField, octets

#: What codecs import of it (`kafkawire.runtime`).
__all__ = ["Codec", "Message", "Struct"]

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R", bound="Message")
#: True for mypy alone, which cannot give a constructor's parameters to another callable.
MYPY = False


class _Replace:
    """`replace` of a struct, which takes what the constructor of its class takes, by name."""

    def __get__(self, value: T, owner: Callable[P, T]) -> Callable[P, T]:
        return self if value is None else partial(msgspec.structs.replace, value)  # type: ignore


class Struct(msgspec.Struct, frozen=True, gc=False, repr_omit_defaults=True, kw_only=True):
    """Base class of the structs of messages.

    Values are frozen and compared by class and fields; they are hashable where all their values are. The classes
    are final: a subclass could neither be decoded into nor be encoded.

    Attributes:
        unknown_tagged_fields: what the schema does not know; the last field of each struct, and given by name only.
    """

    spec: ClassVar[StructSpec] = fields.struct()
    codec: ClassVar[Codec]

    unknown_tagged_fields: tuple[TaggedField, ...] = ()

    if MYPY:

        def replace(self, **changes: Any) -> Self:
            """The same value with other fields: `request.replace(timeout_ms=500)`.

            Raises:
                TypeError: there is no such field.
            """
    else:
        replace: ClassVar[_Replace] = _Replace()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.__base__ is not None and cls.__base__.__module__ != __name__:
            raise TypeError(
                f"{cls.__base__.__name__} is final: decoding gives values of {cls.__base__.__name__}, never of a "
                f"subclass {cls.__name__}"
            )

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """How pydantic validates and writes values: as msgspec converts them to builtins and back."""
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(
            lambda value: value if isinstance(value, cls) else msgspec.convert(value, cls),
            serialization=core_schema.plain_serializer_function_ser_schema(msgspec.to_builtins),
        )

    def __repr__(self) -> str:
        from kafkawire.wire.bounded_repr import bounded_repr

        return bounded_repr(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """How IPython and Jupyter show it: a field a line where one line is too short."""
        from kafkawire.wire.bounded_repr import indented_repr

        printer.text(indented_repr(self))


class Message(Struct, frozen=True, gc=False, repr_omit_defaults=True):
    """Base class of all messages.

    `spec` is the schema as data; `codec` holds the layouts and the generated functions.
    """

    spec: ClassVar[MessageSpec]

    @classmethod
    def decode(cls, data: Input, version: int, *, offset: int = 0, strict: bool = False, copy: bool = True) -> Self:
        """The message that `data` holds, from `offset` to its end.

        Args:
            data: the bytes.
            version: of the message.
            offset: of its first byte in `data`.
            strict: accept only the bytes that `encode` would write; otherwise what Kafka's own Java accepts, and bytes
                in strings that are not UTF-8.
            copy: False leaves bytes and records as memoryviews of `data`.

        Raises:
            DecodeError: malformed or truncated bytes, or bytes after the message.
            UnsupportedVersionError: the message does not have the version.
            ValueError: `offset` lies outside the data.
        """
        message: Self | None = cls.codec.engine.decode(data, version, offset, strict, copy)
        return cls.codec.replay(data, version, offset, strict, copy) if message is None else message

    @classmethod
    def decode_from(
        cls, data: Input, version: int, *, offset: int = 0, strict: bool = False, copy: bool = True
    ) -> tuple[Self, int]:
        """The message that begins at `offset`, and the offset after it; what follows is not looked at.

        Args:
            data, version, offset, strict, copy: see `decode`.

        Raises as `decode` does; ValueError when `offset` lies outside the data.
        """
        found = cls.codec.engine.decode_from(data, version, offset, strict, copy)
        return cls.codec.replay_from(data, version, offset, strict, copy) if found is None else found

    def encode(self, version: int, *, drop_unsupported: bool = False) -> bytes:
        """The bytes of the message in that version.

        Args:
            version: of the message.
            drop_unsupported: encode `for_version(version)`: what the version does not carry is left out instead of
                refused. `unsupported(version)` has what that is.

        Raises:
            EncodeError: a value that the version cannot carry, with its path.
            UnsupportedVersionError: the message does not have the version.
        """
        if drop_unsupported:
            self = self.for_version(version)
        data = self.codec.engine.encode(self, version)
        return self.codec.rewrite(self, version) if data is None else data

    def for_version(self, version: int) -> Self:
        """The message with every field that the version does not carry at its default, as decoding that version gives
        it. A null stays where the version has the field and allows no null: there is no other value that means it.

        Raises:
            UnsupportedVersionError: the message does not have the version.
        """
        self.codec.check(version)
        return fitted(self, version)

    def unsupported(self, version: int) -> tuple[Unsupported, ...]:
        """The fields that the version does not carry and that are not at their defaults: what `for_version` drops.

        Raises:
            UnsupportedVersionError: the message does not have the version.
        """
        self.codec.check(version)
        return tuple(unsupported(self, version))

    @classmethod
    def decode_prefixed(cls, data: Input, *, strict: bool = False, copy: bool = True) -> tuple[Self, int]:
        """The message after its int16 prefix, and its version.

        Coordinator records, control records and `AbortedTxn` begin with an int16: the message's version, but on
        coordinator keys the api key (their version is the message's only one).

        Args:
            data: the bytes, with the prefix first.
            strict, copy: see `decode`.
        """
        spec = cls.spec
        data = octets(data)
        prefix = int.from_bytes(bytes(data[:2]), "big", signed=True) if len(data) >= 2 else None
        if spec.kind == "coordinator-key":
            valid, version = prefix == spec.api_key, spec.valid_versions[-1]
            expected = f"the api key {spec.api_key}"
        else:
            valid, version = prefix in spec.valid_versions, prefix or 0
            expected = f"a version from {spec.valid_versions[0]} to {spec.valid_versions[-1]}"
        if not valid:
            found = f"{len(data)} of its 2 bytes" if prefix is None else str(prefix)
            raise DecodeError(expected=f"{expected} as int16", found=found, offset=0, message=spec.name)
        return cls.decode(data, version, offset=2, strict=strict, copy=copy), version

    def encode_prefixed(self, version: int, *, drop_unsupported: bool = False) -> bytes:
        """The bytes with the int16 before them that `decode_prefixed` reads; see `encode` for the arguments."""
        body = self.encode(version, drop_unsupported=drop_unsupported)
        prefix = self.spec.api_key if self.spec.kind == "coordinator-key" else version
        assert prefix is not None
        return prefix.to_bytes(2, "big", signed=True) + body


class RequestOf(Protocol[R]):
    """A request with the type of its response: `def ask(request: RequestOf[R]) -> R`."""

    response: ClassVar[type[R]]


class Engine(Protocol):
    """Executes the layouts of one message. It returns None where only the interpreter can answer, with an error that
    explains: a version that the message does not have, an offset outside the data, bytes or a value that it refuses.
    """

    def decode(self, data: Input, version: int, offset: int, strict: bool, copy: bool, /) -> Any | None:
        """The message that begins at `offset` and ends where the data ends.

        Args:
            data, version, offset, strict, copy: see `Message.decode`.
        """

    def decode_from(
        self, data: Input, version: int, offset: int, strict: bool, copy: bool, /
    ) -> tuple[Any, int] | None:
        """The message that begins at `offset`, and the offset after it.

        Args:
            data, version, offset, strict, copy: see `Message.decode`.
        """

    def encode(self, value: Any, version: int, /) -> bytes | None:
        """The message's bytes."""


class Codec:
    """The layouts and functions that read and write one message.

    Attributes that are not given are derived on first use.

    Attributes:
        message, structs: the classes; each struct precedes those that use it, `classes` has the message last.
        table: the layouts of all versions.
        decoders, encoders: the generated functions of the versions; a decoder is None in a version that only the
            interpreter may decode, because small input could make it allocate much.
        holds_bytes: whether values of the message hold bytes, which may be views of the input.
        engine: what runs.
        visited: where the classes name something (`kafkawire.visit`).
    """

    table: Table
    decoders: dict[int, Decode | None]
    encoders: dict[int, Encode]
    holds_bytes: bool
    engine: Engine

    def __init__(self, message: type[Message], structs: tuple[type[Struct], ...], read: Decode, write: Encode) -> None:
        self.message = message
        self.classes: tuple[type[Struct], ...] = (*structs, message)
        self.visited: dict[Any, Any] = {}
        self._read = read
        self._write = write
        #: The names of the module that defines the classes.
        self.scope: dict[str, Any] = read.__globals__
        for cls in self.classes:
            cls.codec = self
        for struct in structs:
            setattr(message, struct.__name__, struct)

    def __getattr__(self, name: str) -> Any:
        derive = _DERIVED.get(name)
        if derive is None:
            raise AttributeError(name)
        value = derive(self)
        setattr(self, name, value)  # found before this method from now on
        return value

    def _table(self) -> Table:
        return lower(self.message.spec, [cls.spec for cls in self.classes[:-1]])

    def _decoders(self) -> dict[int, Decode | None]:
        slots = [len(cls.__struct_fields__) for cls in self.classes]
        guarded = {root: is_guarded(self.table, self.table.layouts[root], slots) for root in set(self.table.roots)}
        return {
            version: None if guarded[root] else self._read
            for version, root in enumerate(self.table.roots, self.table.first_version)
        }

    def _encoders(self) -> dict[int, Encode]:
        return dict.fromkeys(self.message.spec.valid_versions, self._write)

    def _holds_bytes(self) -> bool:
        ops = (op for layout in self.table.layouts for op in layout.all_ops())
        return any(op.code & KIND_MASK in (BYTES, RECORDS) for op in ops)

    def _engine(self) -> Engine:
        if native is not None:
            engine: Engine = native.Codec(self.table, self.classes)
            return engine
        return Generated(self.decoders, self.encoders, self.holds_bytes)

    def replay(self, data: Input, version: int, offset: int, strict: bool, copy: bool) -> Any:
        """Reads with the interpreter a message that the engine refused, to the end of the data.

        Args:
            data, version, offset, strict, copy: see `Message.decode`.
        """
        data = octets(data)
        message, end = self.replay_from(data, version, offset, strict, copy)
        more = len(data) - end
        if more:
            found = f"{more} more byte{'s' * (more != 1)}"
            name = self.message.spec.name
            error = DecodeError(
                expected="the end of the message", found=found, offset=end, message=name, version=version
            )
            error.partial = message
            raise error
        return message

    def replay_from(self, data: Input, version: int, offset: int, strict: bool, copy: bool) -> tuple[Any, int]:
        """Reads with the interpreter a message that the engine refused.

        Args:
            data, version, offset, strict, copy: see `Message.decode`.
        """
        from kafkawire.wire.interpreter import allocation_limit, without_views

        self.check(version)
        data = octets(data)
        size = len(data)
        if not 0 <= offset <= size:
            raise ValueError(f"offset {offset} lies outside the {size} bytes given")
        run = partial(self.interpret, version=version, strict=strict, budget=allocation_limit(size - offset))
        if type(data) is bytes and (copy or not self.holds_bytes):
            return run(data, offset=offset)
        try:
            found = owned(lambda buffer, offset: run(buffer, offset=offset), data, offset, copy and self.holds_bytes)
        except DecodeError as error:
            error.partial = without_views(error.partial) if copy else error.partial
            raise
        assert found is not None
        return found

    def rewrite(self, value: Any, version: int) -> bytes:
        """Writes with the interpreter a message that the engine refused."""
        self.check(version)
        return self.interpret_encode(value, version)

    def check(self, version: int) -> None:
        """UnsupportedVersionError where the message does not have the version."""
        if version not in self.message.spec.valid_versions:
            raise UnsupportedVersionError(self.message.spec.name, version, self.message.spec.valid_versions)

    def interpret(
        self, buffer: Buffer, version: int, offset: int = 0, *, strict: bool = False, budget: int | None = None
    ) -> tuple[Any, int]:
        """Decodes with the interpreter, which is slow, explains errors, checks the canonical form, and keeps a budget
        of memory.

        Args:
            buffer: the bytes.
            version: of the message.
            offset: of its first byte.
            strict: accept only the bytes that `encode` would write.
            budget: bytes that may be allocated; None: by the size of the input.
        """
        from kafkawire.wire.interpreter import Decoder

        decoder = Decoder(
            self.table,
            self.classes,
            buffer,
            offset,
            strict=strict,
            message=self.message.spec.name,
            version=version,
            budget=budget,
        )
        value = decoder.struct(self.layout(version))
        return value, decoder.position

    def interpret_encode(self, value: Any, version: int) -> bytes:
        """Encodes with the interpreter, which is slow and explains errors."""
        from kafkawire.wire.interpreter_encoder import Encoder

        encoder = Encoder(self.table, self.classes, message=self.message.spec.name, version=version)
        encoder.struct(self.layout(version), value)
        return bytes(encoder.out)

    def layout(self, version: int) -> Layout:
        """The layout of the whole message in that version."""
        return self.table.layouts[self.table.roots[version - self.table.first_version]]

    def layout_of(self, cls: type[Struct], version: int) -> Layout:
        """The layout of one of the classes in that version, which uses it."""
        number = self.classes.index(cls)
        todo = [self.layout(version)]
        for layout in todo:
            if layout.struct == number:
                return layout
            todo += (self.table.layouts[op.arg] for op in layout.all_ops() if op.code & KIND_MASK == STRUCT)
        raise LookupError(f"version {version} of {self.message.spec.name} has no {cls.__name__}")


_DERIVED = {
    "table": Codec._table,
    "decoders": Codec._decoders,
    "encoders": Codec._encoders,
    "holds_bytes": Codec._holds_bytes,
    "engine": Codec._engine,
}
