"""Releases, features and settings of brokers, as far as they are known."""

from __future__ import annotations

import pytest

from kafkawire.transactions.cluster.cluster_traits import (
    VERIFICATION,
    ClusterTraits,
    Release,
    copied_traits,
    oldest_and_newest,
    release_of,
    release_with,
    verification,
)


@pytest.mark.parametrize(
    ("values", "newest", "verified"),
    [
        ({}, None, None),
        ({}, (3, 5), False),
        ({1: "true", 2: "true"}, (4, 4), True),
        ({1: "true", 2: "false"}, (4, 4), False),
        ({1: "true", 2: None}, None, False),
    ],
)
def test_one_broker_that_does_not_verify_is_enough(
    values: dict[int, str | None], newest: Release | None, verified: bool | None
) -> None:
    found, why = verification(values, newest)
    assert found is verified
    assert bool(why) == (verified is not None)


def test_brokers_that_do_not_verify_are_named_behind_their_noun() -> None:
    assert verification({2: "false", 1: "false", 3: "true"}, None)[1] == f"{VERIFICATION} is false on brokers 1, 2."
    assert verification({7: "false"}, None)[1] == f"{VERIFICATION} is false on broker 7."
    assert "is not a setting of brokers 1, 2:" in verification({1: None, 2: None}, None)[1]


def test_the_releases_of_a_cluster_are_those_of_all_brokers() -> None:
    assert oldest_and_newest([("3.9.1",), ("4.0.0", "4.1.0")]) == ((3, 9), (4, 1))
    assert oldest_and_newest([("3.9.1",), ()]) == oldest_and_newest([]) == (None, None)
    assert release_of("3.10.0") > release_of("3.9.1")


@pytest.mark.parametrize(
    ("level", "release"), [(0, None), (1, (3, 0)), (14, (3, 6)), (20, (3, 8)), (25, (4, 0)), (29, (4, 2)), (99, (4, 4))]
)
def test_a_metadata_version_has_a_least_release(level: int, release: Release | None) -> None:
    assert release_with(level) == release


def test_a_metadata_log_without_features_gives_no_version() -> None:
    nothing = copied_traits({}, {}, first_free_producer_id=None, id_expiration_ms=None)
    assert nothing == ClusterTraits()
    some = copied_traits({"metadata.version": 20}, {}, first_free_producer_id=5, id_expiration_ms=7)
    assert some == ClusterTraits(transaction_version=0, oldest=(3, 8), first_free_producer_id=5, id_expiration_ms=7)


def test_a_setting_in_the_metadata_log_counts() -> None:
    configs = {("", VERIFICATION): "true", ("2", VERIFICATION): "FALSE", ("", "other"): "true"}
    assert copied_traits({}, configs, first_free_producer_id=None, id_expiration_ms=None).verified is False
