"""`explain --share-group` on recorded clusters of two releases: every offset against what its consumers were given."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kafkawire import logdir
from kafkawire.offsets.copied_shares import UnknownShareGroupError, copied_share_lags, explained_shares
from kafkawire.offsets.copied_shares import share_group_names as share_groups_of
from kafkawire.offsets.leading_replica import LeadingReplicas
from kafkawire.rows import DeadLetter, ShareRange, ShareStep
from tools.recordings import share_groups
from tools.recordings.archive import unpacked
from tools.recordings.share_truth import compare

RELEASES = ("4.4.0", "4.2.0")


@pytest.fixture(scope="module")
def folder() -> Path:
    return unpacked(share_groups.NAME)


def replicas(folder: Path, version: str, *nodes: int) -> LeadingReplicas:
    return LeadingReplicas(
        logdir.open(*(str(folder / f"kafka-{version}" / f"node-{node}") for node in nodes or (1, 2)))
    )


@pytest.mark.slow
@pytest.mark.parametrize("version", RELEASES)
def test_no_offset_is_wrong(folder: Path, version: str) -> None:
    found = compare(folder / f"kafka-{version}")
    assert found.wrong == []
    assert found.offsets.total() > 300
    # Every fate was planted, so that each of these was judged.
    statuses = {
        ("acknowledged", None), ("archived", "rejected"), ("archived", "delivery_limit_or_rejected"),
        ("archived", "aborted"), ("archived", "below_log_start"), ("available", "never_delivered"),
        ("available", "delivered_before"), ("available", "open_transaction"),
    }  # fmt: skip
    assert statuses <= set(found.offsets)
    assert (("archived", "delivery_limit") in found.offsets) == (version == "4.4.0")


def test_the_story_of_an_offset_that_was_released_to_the_limit(folder: Path) -> None:
    """A group with a dead-letter topic: archiving, then archived, and the copy with its cause."""
    shares, _ = explained_shares(replicas(folder, "4.4.0"), share_groups.AUDITORS, topic="orders")
    share, offset = next(
        (share, row.first_offset)
        for share in shares
        for row in share.rows(None)
        if isinstance(row, ShareRange) and row.reason == "delivery_limit"
    )
    rows = list(share.story(offset))
    steps = [(row.status, row.delivery_count) for row in rows if isinstance(row, ShareStep) and row.status]
    assert steps == [("available", 1), ("available", 2), ("archiving", 3), ("archived", 3)]
    letters = [row for row in rows if isinstance(row, DeadLetter)]
    assert [(one.copy_topic, one.delivery_count, one.cause) for one in letters] == [
        (share_groups.DEAD_LETTERS, 3, "Offset delivery count exceeded the threshold.")
    ]


def test_a_topic_that_is_gone_keeps_its_name(folder: Path) -> None:
    shares, _ = explained_shares(replicas(folder, "4.4.0"), share_groups.TRIMMERS)
    gone = next(one for one in shares if one.source.gone)
    assert (gone.source.topic, gone.row().deleted) == ("gone", True)


def test_a_group_that_no_record_names(folder: Path) -> None:
    with pytest.raises(UnknownShareGroupError, match="names group nobody"):
        explained_shares(replicas(folder, "4.4.0"), "nobody")


@pytest.mark.parametrize("version", RELEASES)
def test_the_lag_is_the_number_of_records_that_were_not_finished(folder: Path, version: str) -> None:
    """By what consumers were given: records without a last word, but for those that a transaction holds."""
    truth = json.loads((folder / f"kafka-{version}" / "truth.json").read_text())
    last: dict[tuple[str, str, int, int], tuple[int, str]] = {}
    for one in truth["deliveries"]:
        for partition, offset, count, done in one["rows"]:
            last[one["group"], one["topic"], partition, offset] = count, done
    logs = replicas(folder, version)
    names, gaps = share_groups_of(logs)
    assert (names, gaps) == (["auditors", "bookkeepers", "trimmers", "workers"], [])
    for group in names:
        for share in explained_shares(logs, group)[0]:
            for row in copied_share_lags(logs, [share], truth["limit"]):
                assert row.read_uncommitted is not None
                assert row.read_uncommitted.exact
                if row.topic != "orders":
                    continue
                end = row.high_watermark or 0
                ended = {
                    offset: count
                    for (g, topic, partition, offset), (count, done) in last.items()
                    if (g, topic, partition) == (group, "orders", row.partition)
                    and (done in ("accept", "reject") or (count >= truth["limit"] and done == "release"))
                }
                assert row.read_uncommitted.least == end - len(ended)
                archived = sum((row.archived or {}).values())
                accepted = [
                    offset
                    for (g, topic, partition, offset), (_, done) in last.items()
                    if (g, topic, partition) == (group, "orders", row.partition) and done == "accept"
                ]
                assert archived == len(ended) - len(accepted)
