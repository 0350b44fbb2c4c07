"""What each version of a message changed."""

from __future__ import annotations

from pathlib import Path

import pytest

import kafkawire
from kafkawire.codegen import generate
from kafkawire.codegen.lower import lower
from kafkawire.codegen.resolve import resolve
from kafkawire.codegen.version_changes import FLEXIBLE, changes
from tests.codegen.schema_builders import field, message, raw


def test_fields_that_come_go_and_become_nullable() -> None:
    struct = {
        "name": "Parts",
        "type": "[]Part",
        "versions": "0+",
        "fields": [field(name="Id"), field(name="Late", versions="3+")],
    }
    new = {"name": "News", "type": "[]New", "versions": "1+", "fields": [field(name="X", versions="1+")]}
    schema = message(
        field(name="Old", versions="0"), field(name="Text", type="string", nullableVersions="3+"), struct, new
    )
    (one,) = resolve([raw(schema)])
    assert changes(one) == {
        1: [("drops", ["Old"]), ("adds", ["News"])],
        2: [(FLEXIBLE, [])],
        3: [("may be null", ["Text"]), ("adds", ["Parts.Late"])],
    }


@pytest.mark.slow
def test_versions_without_a_change_share_their_layout() -> None:
    shared = 0
    for one in generate.load(Path(kafkawire.__file__).parent / "schemas" / "kafka"):
        table = lower(one)
        for version, found in changes(one).items():
            at = version - table.first_version
            assert (table.roots[at] == table.roots[at - 1]) == (not found), (one.name, version, found)
            shared += not found
    assert shared > 100
