"""Names in backticks, in documents, docstrings and comments, are defined: in code, as files, in schemas or settings."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.docs.guide import ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (ROOT / ".git").exists(), reason="the files of the project are those that git lists"),
]

WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
QUOTED = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
#: Names of two words or more; single ones are words of the language, too.
NAME = re.compile(r"_?[a-z][a-z0-9]*(?:_[a-z0-9]+)+(?:\(\))?")
COMMENTS = re.compile(r"//.*|/\*.*?\*/|--.*")

GENERATED = ("kafkawire/messages/", "kafkawire/drafts/", "kafkawire/embedded/")

#: Names of others' software, and of files that a page has its reader write.
OTHERS = {
    "civil_from_days": "Howard Hinnant's chrono algorithms",
    "forgotten_topic": "a filter of the Wireshark plugin, made from a schema's name",
    "from_protobuf": "Spark",
    "manylinux_2_34": "a platform tag of wheels",
    "mark_transaction_expired": "Redpanda",
    "new_field": "a file of CONTRIBUTING's walk",
    "ring_00001_20261123004500": "a file of a ring of captures",
    "pyspark_kafka_segment": "a file of docs/spark.md's reader",
    "to_protobuf": "Spark",
}


def docstrings(tree: ast.AST) -> set[int]:
    """The lines where docstrings begin."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return {
        node.body[0].lineno
        for node in ast.walk(tree)
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None
    }


def of_python(source: str) -> tuple[set[str], list[tuple[int, str]]]:
    """The names of the code and the words of its strings; comments and docstrings with their lines."""
    names: set[str] = set()
    prose = []
    documented = docstrings(ast.parse(source))
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and token.start[0] in documented):
            prose.append((token.start[0], token.string))
        elif token.type in (tokenize.NAME, tokenize.STRING):
            names |= set(WORD.findall(token.string))
    return names, prose


def files() -> Iterator[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False, text=True).stdout
    for name in filter(None, listed.split("\0")):
        path = ROOT / name
        if path.is_file() and not name.startswith(("tests/golden/", "tests/recordings/")):
            yield path


@cache
def names_and_prose() -> tuple[set[str], list[tuple[str, int, str]]]:
    names: set[str] = set()
    prose: list[tuple[str, int, str]] = []
    for path in files():
        names.add(path.stem)
        place = path.relative_to(ROOT).as_posix()
        if place.startswith(GENERATED):
            names |= set(WORD.findall(path.read_text("utf-8")))
        elif path.suffix == ".py":
            found, texts = of_python(path.read_text("utf-8"))
            names |= found
            prose += [(place, line, text) for line, text in texts]
        elif path.suffix == ".md":
            if not place.startswith("tests/") and place != "CHANGELOG.md":  # the changelog has names of the past
                prose += [(place, at, line) for at, line in enumerate(path.read_text("utf-8").splitlines(), 1)]
        elif path.suffix in (".rs", ".java", ".lua", ".js"):
            for at, line in enumerate(path.read_text("utf-8").splitlines(), 1):
                names |= set(WORD.findall(COMMENTS.sub("", line)))
                prose += [(place, at, comment) for comment in COMMENTS.findall(line)]
        elif path.suffix in (".json", ".toml", ".yml", ".jinja", ".j2", ".sh", ".ksy", ".properties"):
            names |= set(WORD.findall(path.read_text("utf-8")))
    return names, prose


def unknown(names: set[str], text: str) -> Iterator[str]:
    """The names in backticks that are not among `names`."""
    for quoted in QUOTED.findall(text):
        for part in quoted.split("."):
            name = part.removesuffix("()")
            if NAME.fullmatch(part) and name not in names and name not in OTHERS:
                yield name


def test_names_in_backticks_are_defined() -> None:
    names, prose = names_and_prose()
    assert len(prose) > 1000
    assert [f"{place}:{line}: {name}" for place, line, text in prose for name in unknown(names, text)] == []


def test_names_of_others_are_used() -> None:
    _, prose = names_and_prose()
    quoted = {word for _, _, text in prose for quote in QUOTED.findall(text) for word in WORD.findall(quote)}
    assert set(OTHERS) <= quoted


def test_a_name_of_nothing_is_found() -> None:
    assert list(unknown({"a_b"}, "`a_b`, `a_b.c_d`, `e_f()` and `word`, ``g_h``")) == ["c_d", "e_f"]
