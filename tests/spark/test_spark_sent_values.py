"""What the driver and the tasks of a job send each other goes through one module."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

import kafkawire.spark
from kafkawire.spark.session.sent_values import received, sent
from kafkawire.transactions.facts import Place


def imported(path: Path) -> set[str]:
    nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
    names = {one.name for node in nodes if isinstance(node, ast.Import) for one in node.names}
    return names | {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}


def test_no_other_module_pickles() -> None:
    package = Path(kafkawire.spark.__file__).parent
    users = {path.name for path in package.rglob("*.py") if {"pickle", "marshal", "shelve"} & imported(path)}
    assert users == {"sent_values.py"}


def test_what_is_sent_is_received() -> None:
    value = (Place("copy", "orders", 3), [b"\0", None], {"offset": 1})
    assert received(sent(value)) == value
