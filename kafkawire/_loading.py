"""`load_schemas`: codecs compiled at run time, without writing files."""

from __future__ import annotations

import sys
import warnings
from itertools import count
from os import PathLike
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from kafkawire.wire.registry import Entry, Registry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkawire.codegen.load import RawSchema
    from kafkawire.wire.message import Message

#: The schemas of a folder, as they are sent elsewhere: of each file its path, the name of its folder, and its text.
SchemaTexts = tuple[tuple[str, str, str], ...]

_numbers = count(1)


class Namespace:
    """The messages of one folder of schemas: `loaded.FooRequest`, `loaded["FooRequest"]`, iteration over names.

    Attributes:
        registry: the messages of the folder alone; `loaded.registry.over(kafkawire.messages.REGISTRY)` adds Kafka's.
    """

    def __init__(self, messages: dict[str, type[Message]], registry: Registry) -> None:
        self._messages = messages
        self.registry = registry

    @property
    def __all__(self) -> list[str]:
        return sorted(self._messages)

    def __getattr__(self, name: str) -> type[Message]:
        try:
            return self._messages[name]
        except KeyError:
            raise AttributeError(f"no message is named {name!r}; there are {', '.join(self.__all__)}") from None

    def __getitem__(self, name: str) -> type[Message]:
        return self._messages[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.__all__)

    def __len__(self) -> int:
        return len(self._messages)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.__all__]


class _Source:
    """The source of a module that has no file: for tracebacks, and for the `about` texts of fields."""

    def __init__(self, source: str) -> None:
        self._source = source

    def get_source(self, name: str) -> str:
        return self._source


def load_schemas(folder: str | PathLike[str]) -> Namespace:
    """Compiles the message schemas of a folder. The classes equal generated ones.

    Raises:
        SchemaError: the schemas have mistakes; it lists all of them, each with file, line, path and reason.

    Warns:
        UserWarning: a schema states what has no effect, such as versions that its message does not have.
    """
    from kafkawire.codegen.load import load_folder

    return _compiled(load_folder(Path(folder)))


def schema_texts(folder: str | PathLike[str]) -> SchemaTexts:
    """The schemas of a folder, for `load_texts` on another machine. SchemaError for files that are no schemas."""
    from kafkawire.codegen.load import load_folder

    return tuple((schema.file, schema.family, schema.text) for schema in load_folder(Path(folder)))


def load_texts(texts: SchemaTexts) -> Namespace:
    """Compiles the message schemas that `schema_texts` has read; results and errors are those of `load_schemas`."""
    from kafkawire.codegen.load import load_text

    return _compiled([load_text(text, file=file, family=family) for file, family, text in texts])


def _compiled(schemas: list[RawSchema]) -> Namespace:
    from kafkawire.codegen import names, render
    from kafkawire.codegen.resolve import resolve_with_warnings

    package = f"kafkawire_loaded_{next(_numbers)}"
    parent = sys.modules[package] = ModuleType(package)
    parent.__path__ = []  # a package, so that its modules can be imported by name
    loaded: dict[str, type[Message]] = {}
    messages, notes = resolve_with_warnings(schemas)
    for note in notes:
        warnings.warn(str(note), stacklevel=3)
    pairs = render.responses(messages)
    for message in messages:
        module = ModuleType(f"{package}.{names.module_name(message.name)}")
        # Registered, so that the classes can be found by their module's name (pickling, typing.get_type_hints).
        sys.modules[module.__name__] = module
        source = render.render_module(message, pairs.get(message.name))
        vars(module)["__loader__"] = _Source(source)
        exec(compile(source, f"<{message.source}>", "exec"), module.__dict__)
        loaded[message.name] = getattr(module, names.class_name(message.name))
    entries = tuple(Entry(**render.registry_entry(message)) for message in messages)
    return Namespace(loaded, Registry(package, entries, loaded))
