"""Descriptions of structs and fields from schemas: the docstrings of generated classes and of their attributes.

The docstrings are the only place in which they are stored. A program gets them from the module's source, which is
parsed on first use.
"""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any


def about(owner: Any, attribute: str | None = None) -> str:
    """The docstring of a class, or of one of its attributes, on one line.

    Empty where the schema has no description, and where a class has no source.

    Args:
        owner: the class of a struct or message, or None.
        attribute: the attribute of a field; without it the class itself is meant.
    """
    if owner is None:
        return ""
    return _docstrings(owner.__module__).get((owner.__name__, attribute), "")


@cache
def _docstrings(module: str) -> dict[tuple[str, str | None], str]:
    """(class, attribute or None) -> docstring."""
    found: dict[tuple[str, str | None], str] = {}
    for node in ast.parse(_source(module)).body:
        if not isinstance(node, ast.ClassDef):
            continue
        attribute: str | None = None
        for statement in node.body:
            match statement:
                case ast.Expr(ast.Constant(str(text))):
                    text = " ".join(text.split())
                    if attribute is not None or not is_title(text):
                        found[node.name, attribute] = text
                case ast.AnnAssign(ast.Name(name)):
                    attribute = name
    return found


def _source(module: str) -> str:
    """The source of an imported module; empty where it has none."""
    loaded = sys.modules.get(module)
    loader: Any = getattr(loaded, "__loader__", None)
    try:
        if hasattr(loader, "get_source"):
            return loader.get_source(module) or ""
        # The loader of pytest's assertion rewriting, which pytest takes for a package with an entry point of its own.
        path = getattr(loaded, "__file__", None) or ""
        return Path(path).read_text("utf-8") if path.endswith(".py") else ""
    except (ImportError, OSError):
        return ""


# Titles: the docstrings of classes that the schema does not describe --------------------------------------------------


def message_title(name: str, versions: str, flexible: str) -> str:
    """`FetchRequest: versions 4-18, flexible 12+.`

    Args:
        name: of the message.
        versions, flexible: ranges, as texts.
    """
    return f"{name}: {_versions(versions)}, {'not flexible' if flexible == 'none' else f'flexible {flexible}'}."


def struct_title(message: str, versions: str) -> str:
    """`In FetchRequest: versions 15-18.`"""
    return f"In {message}: {_versions(versions)}."


def _versions(text: str) -> str:
    return f"version{'s' * ('-' in text)} {text}"


_TITLE = re.compile(r"(In )?\w+: versions? [0-9-]+(, (not flexible|flexible [0-9]+(\+|-[0-9]+)?))?\.")


def is_title(text: str) -> bool:
    """Whether a docstring is one of the two above."""
    return _TITLE.fullmatch(text) is not None
