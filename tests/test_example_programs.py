"""The programs in `examples/programs`, as a new user would write them: each runs, and none has 60 lines."""

from __future__ import annotations

import asyncio
import importlib.util
from pathlib import Path
from typing import Any

import pytest

from kafkawire.client import Cluster, Config
from kafkawire.messages import MetadataRequest
from kafkawire.proxy import Proxy
from kafkawire.testing import MockBroker
from tests import own_schemas

FOLDER = Path(__file__).parents[1] / "examples" / "programs"


def program(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_is_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) < 60


def test_transaction_by_requests_alone() -> None:
    with MockBroker({"orders": 1}) as broker:
        asyncio.run(program("transactional_producer").main(broker.address, "orders", "a", "b"))
        found = broker.records("orders", committed=True)
        assert [record.value for record in found] == [b"a", b"b"]
        assert all(record.timestamp > 0 for record in found)


def test_proxy_that_renames_topics() -> None:
    async def topics(address: str) -> list[str | None]:
        async with Cluster(Config.of(address)) as cluster:
            return [topic.name for topic in (await cluster.ask(MetadataRequest(topics=None))).topics]

    with MockBroker({"eu-orders": 1}) as broker, Proxy(broker.address) as proxy:
        program("rewriting_proxy").prefixed(proxy, "eu-")
        assert asyncio.run(topics(proxy.address)) == ["orders"]
        asyncio.run(program("transactional_producer").main(proxy.address, "orders", "a"))
        assert len(broker.records("eu-orders")) == 1


def test_bytes_of_a_capture() -> None:
    found = program("bytes_by_topic").bytes_by_topic(str(FOLDER.parent / "capture" / "transactions.pcap"))
    assert found.total() == 10_014
    assert found["payments"] == 1779


def test_own_and_edited_schemas(tmp_path: Path) -> None:
    edited = [own_schemas.shipped(name) for name in ("MetadataRequest", "MetadataResponse")]
    for schema in edited:
        first, _, last = schema["validVersions"].partition("-")
        schema["validVersions"] = f"{first}-{int(last) + 1}"
    folder = own_schemas.write(tmp_path / "schemas", own_schemas.PING, own_schemas.PONG, *edited)
    assert program("edited_schemas").run(str(folder)) == ("HELLO", ["orders"])
