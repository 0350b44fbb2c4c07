"""A release that the schemas here do not come from: its jar is imported, compiled at run time, and held against Kafka's
own classes of that release. No code knows the release."""

from __future__ import annotations

from pathlib import Path

import pytest

import kafkawire
from kafkawire.cli import main
from tests.conformance.test_oracle import start, wrong
from tools.broker.jars import cache_dir
from tools.conformance import differential
from tools.conformance.pairing import Pair
from tools.import_schemas import schema_jars

pytestmark = pytest.mark.slow

RELEASE, ARTIFACT = "4.2.0", "kafka-group-coordinator"


def test_an_imported_release_reads_and_writes_what_its_own_classes_do(tmp_path: Path) -> None:
    with start(RELEASE) as oracle:
        jar = schema_jars.find(cache_dir() / "jars", ARTIFACT, RELEASE)
        assert main(["schema", "import", str(jar), "-o", str(tmp_path / "schemas")]) == 0
        loaded = kafkawire.load_schemas(tmp_path / "schemas")
        assert len(loaded) == 44
        found = [
            Pair(message["name"], version, loaded[message["name"]], version, message["json"])
            for message in oracle.one(op="list")["messages"]
            if message["name"] in list(loaded)
            for version in range(message["low"], message["high"] + 1)
        ]
        assert {pair.name for pair in found} == set(loaded)
        work = [(pair, style) for pair in found for style in differential.styles(3)]
        for way in (differential.java_first, differential.ours_first):
            assert wrong(way(oracle, work, newest=True)) == []
