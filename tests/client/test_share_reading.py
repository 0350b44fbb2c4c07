"""A share group on a real cluster: `explain` of the cluster says what it says of the broker's log directory."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from kafkawire import logdir
from kafkawire.client import Admin, ClientError, Search
from kafkawire.client.diagnosis.group_standing import read_group_lags
from kafkawire.client.diagnosis.history_reading import read_history
from kafkawire.client.diagnosis.share_reading import read_shares
from kafkawire.client.diagnosis.why_reading import read_why
from kafkawire.client.diagnosis.wire_audit import WireAudit, audit
from kafkawire.offsets.copied_history import copied_history
from kafkawire.offsets.copied_shares import copied_share_lags, explained_shares
from kafkawire.offsets.leading_replica import LeadingReplicas
from kafkawire.offsets.share_audit import share_answers
from kafkawire.offsets.share_explain import ShareExplained
from kafkawire.rows import CheckAnswer, HistoryEvent, Lag, Row, ShareRange, Subject, Why
from kafkawire.transactions.checks.check_names import SHARE_CHECKS
from tools.broker import BrokerUnavailableError, cluster
from tools.recordings import example_folder as recipe

pytestmark = pytest.mark.slow


def shown(share: ShareExplained, *, most: int | None = None) -> list[Row]:
    """Its rows without what only copies have: the path of the state."""
    return [replace(row, file=None) for row in share.rows(most)]  # type: ignore[type-var]


async def lags(bootstrap: str) -> tuple[list[Lag], list[Lag], Why]:
    """The lag of the group, the same with a state that is not read to its end, and what blocks it."""
    async with Admin.connect(bootstrap) as client:
        return (
            await read_group_lags(client.cluster, recipe.SHARE_GROUP, Search(address=bootstrap)),
            await read_group_lags(client.cluster, recipe.SHARE_GROUP, Search(address=bootstrap, fetch_bytes=1)),
            await read_why(client.cluster, Subject(group=recipe.SHARE_GROUP), Search(address=bootstrap)),
        )


async def audited(bootstrap: str) -> dict[str, CheckAnswer]:
    """The answers of the rules of share groups over the wire."""
    async with Admin.connect(bootstrap) as client:
        found = await audit(client.cluster, WireAudit(search=Search(address=bootstrap)))
    return {one.check: one for one in found.answers if one.check in SHARE_CHECKS}


def test_a_cluster_is_explained_as_its_log_directory_is(tmp_path: Path) -> None:
    async def read(bootstrap: str, fetch_bytes: int, group: str = recipe.SHARE_GROUP) -> list[ShareExplained]:
        async with Admin.connect(bootstrap) as client:
            return (await read_shares(client.cluster, group, fetch_bytes=fetch_bytes))[0]

    async def told(bootstrap: str) -> list[HistoryEvent]:
        async with Admin.connect(bootstrap) as client:
            subject = Subject(group=recipe.SHARE_GROUP)
            return [event async for event in read_history(client.cluster, subject, 1 << 20)]

    try:
        with cluster(1, config=recipe.SHARE_CONFIG) as running:
            recipe.share_workload(running)
            (live,) = asyncio.run(read(running.bootstrap, 1 << 20))
            (cut,) = asyncio.run(read(running.bootstrap, 1))
            with pytest.raises(ClientError, match="nobody"):
                asyncio.run(read(running.bootstrap, 1 << 20, "nobody"))
            (copied,), _ = explained_shares(
                LeadingReplicas(logdir.open(str(running.log_dirs[1]))), recipe.SHARE_GROUP, topic=recipe.SHARE_TOPIC
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
            (counted,), (bounded,), blocked = asyncio.run(lags(running.bootstrap))
            (of_logs,) = copied_share_lags(LeadingReplicas(logdir.open(str(running.log_dirs[1]))), [copied], None)
            assert counted.archived == of_logs.archived == {"rejected": 2, "delivery_limit": 2}
            assert (counted.read_committed, counted.read_uncommitted) == (
                of_logs.read_committed, of_logs.read_uncommitted,
            )  # fmt: skip
            assert counted.read_uncommitted is not None
            assert counted.read_uncommitted.exact
            assert counted.oldest_timestamp == of_logs.oldest_timestamp is not None
            # A state that was not read to its end is not counted from: what the coordinator answers bounds the lag.
            assert bounded.read_uncommitted is not None
            assert bounded.archived is None
            assert bounded.read_uncommitted.least <= counted.read_uncommitted.least <= bounded.read_uncommitted.most
            assert [(one.topic, one.archived) for one in blocked.lags] == [(recipe.SHARE_TOPIC, counted.archived)]
            wired = asyncio.run(audited(running.bootstrap))
            local = share_answers(LeadingReplicas(logdir.open(str(running.log_dirs[1]))))
            assert not any(one.violated for one in wired.values())
            for check in ("share_transition", "share_start_offset", "share_epochs", "share_snapshot",
                          "share_delivered_first", "share_offsets_exist", "share_dead_letter"):  # fmt: skip
                held = sum(one.answer.held for one in local if one.answer.check == check)
                assert (check, wired[check].held) == (check, held)
            # Which values a group's properties had before, and which topics were removed, no broker says.
            assert {check for check, one in wired.items() if one.not_checkable} == {
                "share_delivery_limit", "share_topic_exists",
            }  # fmt: skip
            story = [replace(one, file=None) for one in live.story(6)]  # type: ignore[type-var]
            assert story[1:] == [replace(one, file=None) for one in copied.story(6)][1:]  # type: ignore[type-var]
            # The story of the group, by the records of its state.
            copies = LeadingReplicas(logdir.open(str(running.log_dirs[1])))
            of_copies = list(copied_history(copies, Subject(group=recipe.SHARE_GROUP)))
            assert asyncio.run(told(running.bootstrap)) == of_copies
            assert any(f"{recipe.SHARE_TOPIC}-0: starts at offset" in getattr(one, "what", "") for one in of_copies)
    except BrokerUnavailableError as error:
        pytest.skip(str(error))
