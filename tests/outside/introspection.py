"""Asks every class for its annotations, as libraries do at run time; prints the number of classes."""

from __future__ import annotations

import copy
import inspect
import pickle
import typing
from contextlib import suppress
from importlib import import_module
from pkgutil import iter_modules

import msgspec

from kafkawire import drafts, embedded, messages


def classes() -> typing.Iterator[type[typing.Any]]:
    """Every message and every struct of every package, and of the own one where there is one."""
    packages = [messages, embedded]
    packages += [import_module(f"{drafts.__name__}.{found.name}") for found in iter_modules(drafts.__path__)]
    with suppress(ImportError):
        packages.append(import_module("pinger"))
    for package in packages:
        for entry in package.REGISTRY:
            yield from package.REGISTRY.load(entry).codec.classes


def check(cls: type[typing.Any]) -> None:
    hints = typing.get_type_hints(cls, include_extras=True)
    assert set(cls.__struct_fields__) <= set(hints)
    assert list(inspect.signature(cls, eval_str=True).parameters) == list(cls.__struct_fields__)
    for method in ("decode", "encode", "unsupported"):
        if hasattr(cls, method):
            typing.get_type_hints(getattr(cls, method))
    value = cls()
    assert pickle.loads(pickle.dumps(value)) == value
    assert copy.copy(value) == value == copy.deepcopy(value)
    assert msgspec.json.decode(msgspec.json.encode(value), type=cls) == value
    assert msgspec.convert(msgspec.to_builtins(value), cls) == value


def check_pydantic(cls: type[typing.Any]) -> None:
    import pydantic

    adapter = pydantic.TypeAdapter(cls)
    value = cls()
    assert adapter.validate_python(value) is value
    assert adapter.validate_json(adapter.dump_json(value)) == value
    assert adapter.validate_python(adapter.dump_python(value)) == value
    try:
        adapter.validate_python({"unknown_tagged_fields": 5})
    except pydantic.ValidationError:
        return
    raise AssertionError("what is no value of the class is accepted")


def check_cattrs(cls: type[typing.Any]) -> None:
    from cattrs.preconf.msgspec import make_converter

    converter = make_converter()
    value = cls()
    assert converter.structure(converter.unstructure(value), cls) == value
    assert converter.loads(converter.dumps(value), cls) == value


if __name__ == "__main__":
    listed = list(classes())
    for each in listed:
        check(each)
        check_pydantic(each)
        check_cattrs(each)
    print(len(listed), "classes")
