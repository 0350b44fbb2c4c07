"""What blocks a live partition and is no transaction."""

from __future__ import annotations

from msgspec.structs import replace

from kafkawire.transactions.blocking.partition_blockers import (
    DamagedBatch,
    Replicas,
    TierReach,
    damaged,
    missing_replicas,
    tier_behind,
)
from kafkawire.transactions.commands import Reach

REACH = Reach("127.0.0.1:9092")
WHOLE = Replicas(topic="orders", partition=3, leader=1, replicas=(1, 2, 3), offline=(), in_sync=(1, 2, 3))
TIER = TierReach(topic="orders", partition=3, copied=99, local_start=100, stable=900, high=900, local_bytes=2_500)
TIERED = {"remote.storage.enable": "true", "segment.bytes": "1000"}


def test_damage_names_where_consumers_stop_and_who_may_have_it_whole() -> None:
    places = [DamagedBatch(offset=17 + number, reason="crc_mismatch", detail="a checksum") for number in range(3)]
    found = damaged(places, WHOLE, REACH)
    assert found.on == "damage in the log of broker 1 at offset 17: crc_mismatch, and 2 more places"
    assert "brokers 2, 3" in found.action
    assert (
        found.command == "kafkawire dump --bootstrap-server 127.0.0.1:9092 --topic orders --partition 3 --offset 17.."
    )
    alone = damaged(places[:1], replace(WHOLE, in_sync=(1,)), REACH)
    assert "no other replica is in sync" in alone.action
    assert alone.on.endswith("crc_mismatch")


def test_replicas_that_are_offline_block_producers_where_too_few_are_in_sync() -> None:
    settings = {"min.insync.replicas": "2"}
    assert missing_replicas(WHOLE, settings, REACH) is None
    assert missing_replicas(replace(WHOLE, in_sync=(1, 2)), settings, REACH) is None  # one lags, and nobody waits
    one = missing_replicas(replace(WHOLE, offline=(3,), in_sync=(1, 2)), settings, REACH)
    assert one is not None
    assert (one.cause, one.attention) == ("offline_replicas", None)
    two = missing_replicas(replace(WHOLE, offline=(2, 3), in_sync=(1,)), settings, REACH)
    assert two is not None
    assert two.attention == "offline_replicas"
    assert two.on == "1 of 3 replicas in sync; brokers 2, 3 offline; min.insync.replicas 2"
    unknown = missing_replicas(replace(WHOLE, offline=(2, 3), in_sync=(1,)), {}, REACH)
    assert unknown is not None
    assert unknown.attention is None
    assert unknown.on.endswith("not known")
    leaderless = replace(WHOLE, leader=None, offline=(1, 2, 3), in_sync=())
    assert missing_replicas(leaderless, settings, REACH) is None  # that is `no_leader`
    more_than_there_are = replace(WHOLE, replicas=(1,), in_sync=(1,))
    assert missing_replicas(more_than_there_are, settings, REACH) is None


def test_tier_lags_where_two_closed_segments_are_not_copied() -> None:
    found = tier_behind(TIER, TIERED)
    assert found is not None
    assert (found.attention, found.waits[0].offset) == ("tier_lag", 100)
    assert "the tier ends at offset 99; at least 2.5 kB from offset 100 on is not copied" in found.on
    newest = tier_behind(replace(TIER, local_bytes=1_500), TIERED)  # one, which may be copied now
    assert newest is not None
    assert newest.attention is None
    assert tier_behind(replace(TIER, local_bytes=900), TIERED) is None  # it may be the active one
    assert tier_behind(TIER, {**TIERED, "remote.storage.enable": "false"}) is None
    assert tier_behind(TIER, {"remote.storage.enable": "true"}) is None


def test_tier_that_may_not_copy_more_does_not_lag() -> None:
    held = replace(TIER, stable=100, high=900)  # an open transaction holds the last stable offset
    assert tier_behind(held, TIERED) is None
    local = replace(TIER, local_start=50)  # part of what is on the disk is copied: how much is not known
    assert tier_behind(local, TIERED) is None
    assert tier_behind(replace(local, fetched_bytes=2_001), TIERED) is not None
