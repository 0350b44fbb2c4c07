"""A share group on a real cluster: `explain` of the cluster says what it says of the broker's log directory."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from kafkawire import logdir
from kafkawire.client import Admin, ClientError
from kafkawire.client.diagnosis.share_reading import read_shares
from kafkawire.offsets.copied_shares import explained_shares
from kafkawire.offsets.leading_replica import LeadingReplicas
from kafkawire.offsets.share_explain import ShareExplained
from kafkawire.rows import Row, ShareRange
from tools.broker import BrokerUnavailableError, cluster, jars
from tools.recordings import example_share_groups as recipe

pytestmark = pytest.mark.slow


def shown(share: ShareExplained, *, most: int | None = None) -> list[Row]:
    """Its rows without what only copies have: the path of the state."""
    return [replace(row, file=None) for row in share.rows(most)]  # type: ignore[type-var]


def test_a_cluster_is_explained_as_its_log_directory_is(tmp_path: Path) -> None:
    async def read(bootstrap: str, fetch_bytes: int, group: str = recipe.GROUP) -> list[ShareExplained]:
        async with Admin.connect(bootstrap) as client:
            return (await read_shares(client.cluster, group, fetch_bytes=fetch_bytes))[0]

    try:
        with cluster(1, config=recipe.CONFIG) as running:
            recipe.workload(running, tmp_path / "scratch", jars.broker_jars())
            (live,) = asyncio.run(read(running.bootstrap, 1 << 20))
            (cut,) = asyncio.run(read(running.bootstrap, 1))
            with pytest.raises(ClientError, match="nobody"):
                asyncio.run(read(running.bootstrap, 1 << 20, "nobody"))
            (copied,), _ = explained_shares(
                LeadingReplicas(logdir.open(str(running.log_dirs[1]))), recipe.GROUP, topic=recipe.TOPIC
            )
            assert shown(live)[1:] == shown(copied)[1:]
            assert {(row.status, row.reason) for row in live.rows(None) if isinstance(row, ShareRange)} == {
                ("acknowledged", None), ("archived", "rejected"), ("archived", "delivery_limit"),
                ("available", "never_delivered"),
            }  # fmt: skip
            row, of_copy = live.row(), copied.row()
            assert replace(row, file=None, unseen=(), problems=()) == replace(
                of_copy, file=None, unseen=(), problems=()
            )
            # What is behind the budget is not made up.
            assert any("--fetch-bytes is 1 byte" in text for text in (*cut.source.problems, *cut.problems))
            story = [replace(one, file=None) for one in live.story(6)]  # type: ignore[type-var]
            assert story[1:] == [replace(one, file=None) for one in copied.story(6)][1:]  # type: ignore[type-var]
    except BrokerUnavailableError as error:
        pytest.skip(str(error))
