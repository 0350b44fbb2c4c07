"""Public names and their signatures, held by golden files: a change of one is seen in review (docs/stability.md).

A name that is gone and an argument that is renamed are breaks; what is added is written with `UPDATE_GOLDEN=1`.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from types import GenericAlias, ModuleType
from typing import Any, TypeVar

import pytest

from kafkawire.codegen.names import RUNTIME
from tests import golden

pytestmark = pytest.mark.slow

#: Modules that docs/stability.md names. The messages of `messages` follow their schemas; their base classes are here.
MODULES = (
    "kafkawire", "kafkawire.capture", "kafkawire.client", "kafkawire.errors", "kafkawire.frames",
    "kafkawire.kafka_api_keys", "kafkawire.kafka_errors", "kafkawire.logdir", "kafkawire.offsets", "kafkawire.proxy",
    "kafkawire.records", "kafkawire.report", "kafkawire.rows", "kafkawire.runtime", "kafkawire.scanning",
    "kafkawire.spark", "kafkawire.testing", "kafkawire.transactions", "kafkawire.versions", "kafkawire.visit",
    "kafkawire.witness", "kafkawire.wire.codec_names", "kafkawire.wire.columns",
)  # fmt: skip


def public(module: ModuleType) -> list[str]:
    """The names of a module: `__all__`, or what it defines itself without an underscore."""
    listed: list[str] | None = getattr(module, "__all__", None)
    if listed is not None:
        return sorted(listed)
    if module.__name__ == "kafkawire.wire.codec_names":
        return sorted(RUNTIME)
    return sorted(
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (getattr(value, "__module__", None) == module.__name__ or (name.isupper() and name != "TYPE_CHECKING"))
        and not isinstance(value, TypeVar)
    )


def describe(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, ModuleType):
        yield f"module {name}"
    elif inspect.isclass(value):
        bases = [base.__name__ for base in value.__bases__ if base is not object]
        yield f"class {name}({', '.join(bases)})" if bases else f"class {name}"
        yield from (f"    {line}" for line in sorted(members(value)))
    elif callable(value):
        yield f"def {name}{signature(value)}"
    else:
        yield f"{name}: {type(value).__name__}"


def members(cls: type[Any]) -> Iterator[str]:
    if issubclass(cls, Enum):
        return  # its members are those of a table that has tests of its own
    for base in cls.__mro__:
        if not base.__module__.startswith("kafkawire"):
            continue
        annotations = {
            name: getattr(text, "__forward_arg__", text)
            for name, text in inspect.get_annotations(base).items()
            if name[0] != "_"
        }
        yield from (f"{name}: {text}" for name, text in annotations.items())
        for name, value in vars(base).items():
            if name in annotations or (name.startswith("_") and name != "__init__"):
                continue
            inner = getattr(value, "__func__", value)
            if isinstance(value, property):
                yield f"property {name}"
            elif inspect.isfunction(inner) and (name != "__init__" or base is cls):
                yield f"{type(value).__name__ if inner is not value else 'def'} {name}{signature(inner)}"


def signature(function: Any) -> str:
    try:
        parsed = inspect.signature(function)
    except (TypeError, ValueError):
        return "(...)"
    parts = [argument(one) for one in parsed.parameters.values()]
    named = [one.kind is one.KEYWORD_ONLY for one in parsed.parameters.values()]
    if any(named) and not any(one.kind is one.VAR_POSITIONAL for one in parsed.parameters.values()):
        parts.insert(named.index(True), "*")
    return f"({', '.join(parts)})"


def argument(one: inspect.Parameter) -> str:
    """The argument with its default; types are held by type checkers."""
    mark = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
    default = "" if one.default is one.empty else "=" + re.sub(r" at 0x\w+|<(\w+\.)+", "", repr(one.default))
    return mark + one.name + default


@pytest.mark.parametrize("name", MODULES)
def test_public_names_and_signatures_are_those_of_the_golden_file(name: str) -> None:
    module = importlib.import_module(name)
    lines = [line for each in public(module) for line in describe(each, getattr(module, each))]
    golden.check(f"api/{name.removeprefix('kafkawire.').replace('.', '_')}.txt", "\n".join(lines) + "\n")


def test_a_changed_signature_and_a_lost_name_are_noticed() -> None:
    def before(path: str, *, strict: bool = False) -> None: ...
    def renamed(file: str, *, strict: bool = False) -> None: ...
    def other_default(path: str, *, strict: bool = True) -> None: ...

    texts = {"\n".join(describe("read", function)) for function in (before, renamed, other_default)}
    assert len(texts) == 3
    module = ModuleType("kafkawire.some")
    vars(module).update(A=1, b=before, _c=2)
    before.__module__ = module.__name__
    assert public(module) == ["A", "b"]


# Pages of the API on disk: the public names with what they are; the site adds arguments and docstrings --------------

API = Path(__file__).parents[1] / "docs" / "api"
MARKS = "<!-- names -->", "<!-- /names -->"
#: Modules whose names are many numbers: their pages say where they are listed.
NUMBERS = {"kafkawire.kafka_errors", "kafkawire.kafka_api_keys"}
PAGES = sorted(path.name for path in API.glob("*.md"))


def module_of(text: str) -> str:
    return text.partition("\n")[0].removeprefix("# ").strip()


def first_sentence(value: Any) -> str:
    """Of the docstring of a class or function; what a constant or an alias of a type is."""
    if isinstance(value, GenericAlias):
        return f"`{value.__origin__.__name__}`"
    if inspect.ismodule(value) or inspect.isclass(value) or callable(value):
        text = " ".join((inspect.getdoc(value) or "").partition("\n\n")[0].split())
        return re.split(r"(?<=[.:])\s(?=[A-Z`])", text)[0].removesuffix(":").replace("|", "\\|")
    return f"`{type(value).__name__}`"


def names(module: str) -> list[str]:
    found = importlib.import_module({"kafkawire.columns": "kafkawire.wire.columns"}.get(module, module))
    lines = ["| name | |", "|---|---|"]
    lines += [f"| `{name}` | {first_sentence(getattr(found, name))} |" for name in public(found)]
    how = f"Arguments and all docstrings: the site (`make docs`), or `python -m pydoc {found.__name__}`."
    return [MARKS[0], "", how, "", *lines, "", MARKS[1]]


@pytest.mark.parametrize("page", PAGES)
def test_page_lists_the_public_names(page: str) -> None:
    path = API / page
    text = path.read_text()
    module = module_of(text)
    if module == "kafkawire.messages" or module in NUMBERS:
        assert len(text.split()) > 12  # prose
        return
    block = "\n".join(names(module))
    heading, _, rest = text.partition("\n")
    if MARKS[0] in rest:
        before, _, after = rest.partition(MARKS[0])
        rest = before.strip("\n") + after.partition(MARKS[1])[2]
    wanted = f"{heading}\n\n{block}\n\n{rest.strip()}\n"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(wanted)
    assert path.read_text() == wanted, f"UPDATE_GOLDEN=1 writes {page} anew"


@pytest.mark.parametrize("module", MODULES)
def test_public_classes_and_functions_have_docstrings_of_their_own(module: str) -> None:
    found = importlib.import_module(module)
    for name in public(found):
        value = getattr(found, name)
        if inspect.isclass(value) and module != "kafkawire.messages":
            own = vars(value).get("__doc__") or ""
            assert own, name
            assert not own.startswith((f"{name}(", "See the module")), name
        elif inspect.isfunction(value) and module != "kafkawire.wire.codec_names":  # names for generated code
            assert value.__doc__, name
