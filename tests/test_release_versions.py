"""`kafkawire.versions`: what releases speak, against the schemas of this package and between releases."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire import frames, lookup, versions
from kafkawire.messages import REGISTRY
from tests.cli.test_cli_schema_import import kafka_jar
from tools.import_schemas import release_versions
from tools.import_schemas.schema_jars import load

TABLE = Path(__file__).parents[1] / "schemas" / "release_versions.json"


def test_releases_are_one_of_each_minor_version() -> None:
    assert versions.releases()[0] == "2.4.1"
    assert versions.releases()[-1] == "4.4.0"
    assert len({release.rsplit(".", 1)[0] for release in versions.releases()}) == len(versions.releases())


def test_versions_of_a_release() -> None:
    fetch = lookup("FetchRequest").spec.api_key
    assert fetch is not None
    assert versions.of("2.8")[fetch] == versions.of("2.8.2")[fetch] == range(13)
    assert 61 not in versions.of("2.7")  # DescribeProducers
    assert versions.of("2.8")[61] == range(1)
    assert 4 not in versions.of("4.4")  # LeaderAndIsr, of ZooKeeper's days


def test_unstable_versions_are_those_of_unstable_api_versions_enable() -> None:
    add_partitions = 24
    assert versions.of("3.5")[add_partitions] == range(4)
    assert versions.of("3.5", unstable=True)[add_partitions] == range(5)


@pytest.mark.parametrize("release", ["1.0", "4", "", "2.80", "x"])
def test_rejects_releases_outside_the_table(release: str) -> None:
    with pytest.raises(ValueError, match=r"of 2\.4\.1, .* they are"):
        versions.of(release)


def test_every_version_of_a_release_has_a_codec() -> None:
    for release in versions.releases():
        for name, spoken in versions.of_messages_in(release, unstable=True).items():
            valid = REGISTRY.entry(name).valid_versions
            assert set(spoken) <= set(valid), (release, name)


def test_highest_shared_version() -> None:
    assert versions.highest_shared(range(12), range(4, 18)) == 11
    assert versions.highest_shared(range(3), range(3, 18)) is None
    assert versions.highest_shared(range(0), range(3)) is None
    assert versions.shared({0: range(3, 14), 1: range(4)}, {0: range(10), 1: range(4, 9), 2: range(1)}) == {0: 9}


TABLES = st.dictionaries(
    st.integers(0, 200),
    st.tuples(st.integers(0, 100), st.integers(1, 30)).map(lambda pair: range(pair[0], sum(pair))),
)


@given(ours=TABLES, theirs=TABLES)
def test_shared_versions_are_the_highest_of_both_sets(ours: dict[int, range], theirs: dict[int, range]) -> None:
    both = {key: set(ours[key]) & set(theirs.get(key, ())) for key in ours}
    assert versions.shared(ours, theirs) == {key: max(numbers) for key, numbers in both.items() if numbers}
    assert versions.shared(ours, theirs) == versions.shared(theirs, ours)


@given(TABLES)
def test_responses_hold_the_table(table: dict[int, range]) -> None:
    response = versions.to_response(table)
    for version in response.spec.valid_versions:
        assert versions.from_response(type(response).decode(response.encode(version), version)) == table


def test_response_of_a_release_is_a_frame() -> None:
    response = versions.to_response(versions.of("2.8"))
    frame = frames.encode_response(response, version=3, correlation_id=7)
    assert frames.decode_response(frame[4:], api_key=18, version=3).body == response


def test_releases_that_have_a_version() -> None:
    assert versions.releases_with("AlterPartitionRequest", 1)[0] == "3.2.3"
    assert versions.releases_with("AlterPartitionRequest", 99) == ()
    assert versions.releases_with("NoRequest", 0) == ()


@pytest.mark.slow
def test_table_is_what_the_jars_have() -> None:
    """The newest and the oldest release, whose jars other tests use as well."""
    ends = ("2.4.1", "4.4.0")
    for release in ends:
        kafka_jar("kafka-clients", release)
    found = json.loads(
        release_versions.table(
            load(kafka_jar("kafka-clients", release).parent, [("kafka-clients", release)])[0] for release in ends
        )
    )["messages"]
    for release in ends:
        expected = {name: history for name, history in found.items() if history[0][0] == release or release == "4.4.0"}
        spoken = versions.of_messages_in(release, unstable=True)
        for name, history in expected.items():
            entry = [one for one in history if ends.index(one[0]) <= ends.index(release)][-1]
            low, _, high = entry[1].partition("-")
            assert entry[1] == "none" or spoken[name] == range(int(low), int(high or low) + 1), name
