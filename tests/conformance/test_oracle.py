"""A small share of `make conformance`, with Kafka's own classes. Skipped where there is no Java or no jar.

With `KAFKAWIRE_REQUIRE_BROKER=1` (Java and Maven are present) a missing oracle is a failure.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

import pytest

from kafkawire.messages import REGISTRY, ApiVersionsResponse, FetchRequest
from tools.conformance import converting, differential, headers, json_input, mutating, refusals
from tools.conformance.pairing import Pair, pairs
from tools.conformance.verdict import Verdict
from tools.oracle import Oracle, OracleUnavailableError

pytestmark = pytest.mark.slow


def start(release: str) -> Oracle:
    try:
        return Oracle(release)
    except OracleUnavailableError as error:
        if os.environ.get("KAFKAWIRE_REQUIRE_BROKER"):
            raise
        pytest.skip(str(error))


def wrong(verdicts: Iterable[Verdict]) -> list[str]:
    return [str(verdict) for verdict in verdicts if verdict.wrong]


@pytest.fixture(scope="module")
def newest() -> Iterator[Oracle]:
    with start("4.4.0") as oracle:
        yield oracle


@pytest.fixture(scope="module")
def found(newest: Oracle) -> list[Pair]:
    return pairs("4.4.0", newest.one(op="list")["messages"]).same


def test_every_message_and_version_of_the_release_is_ours(newest: Oracle) -> None:
    listed = pairs("4.4.0", newest.one(op="list")["messages"])
    assert listed.missing == []
    assert listed.different == []
    assert len(listed.same) == 744


@pytest.mark.parametrize("way", [differential.java_first, differential.ours_first])
def test_both_write_and_read_the_same_bytes(newest: Oracle, found: list[Pair], way: object) -> None:
    assert callable(way)
    work = [(pair, style) for pair in found for style in differential.styles(1)]
    assert wrong(way(newest, work, newest=True)) == []


def test_extreme_objects(newest: Oracle, found: list[Pair]) -> None:
    work = [(pair, differential.ObjectStyle("extreme", 77)) for pair in found[::5]]
    assert wrong(differential.java_first(newest, work, newest=True)) == []


@pytest.mark.parametrize("release", ["3.9.1", "2.7.2", "2.4.1"])
def test_older_releases(release: str) -> None:
    with start(release) as oracle:
        listed = pairs(release, oracle.one(op="list")["messages"])
        assert listed.missing == []
        work = [(pair, differential.ObjectStyle("random", 3)) for pair in listed.same]
        for way in (differential.java_first, differential.ours_first):
            assert wrong(way(oracle, work, newest=False)) == []


def test_headers_and_frames(newest: Oracle) -> None:
    verdicts = list(headers.check(newest))
    assert len(verdicts) > 600
    assert wrong(verdicts) == []


def test_mutants(newest: Oracle, found: list[Pair]) -> None:
    work = [(pair, mutant) for pair in found for mutant in mutating.mutants(pair, 991, 4)]
    verdicts = list(refusals.judge(newest, work, newest=True))
    assert wrong(verdicts) == []
    kinds = [verdict.kind for verdict in verdicts]
    # The mutants are of use: many are refused, and many are not.
    assert kinds.count(refusals.REFUSED) > len(kinds) / 5
    assert kinds.count(refusals.ACCEPTED) > len(kinds) / 5


def test_json_input(newest: Oracle, found: list[Pair]) -> None:
    work = [(pair, *json_input.broken(pair, 5)) for pair in found]
    readings = list(json_input.read_both(newest, work))
    assert wrong(readings) == []
    assert {reading.kind for reading in readings} >= {"", json_input.UNKNOWN_NAME}


def test_conversions_and_defaults(newest: Oracle, found: list[Pair]) -> None:
    verdicts = list(converting.convert_both(newest, list(converting.conversions(found, 17))))
    assert len(verdicts) > 500
    assert wrong(verdicts) == []
    assert {verdict.kind for verdict in verdicts} <= {"", converting.NULL_IN_JSON}
    assert wrong(converting.defaults(newest, found)) == []


# The comparisons find what is wrong -----------------------------------------------------------------------------------


def test_a_wrong_layout_is_found_in_both_directions(newest: Oracle) -> None:
    """FetchRequest v17 read as v16 and v12: the first is laid out alike, the second is not."""
    pair = Pair("FetchRequest", 17, FetchRequest, 12, True)
    work = [(pair, differential.ObjectStyle("random", seed)) for seed in range(6)]
    assert len(wrong(differential.java_first(newest, work, newest=True))) == len(work)
    assert wrong(differential.ours_first(newest, work, newest=True))


def test_a_codec_that_accepts_too_much_is_found(newest: Oracle) -> None:
    # Version 0 of the response is a prefix of version 1: truncated bytes of v1 are refused by Java alone.
    data = ApiVersionsResponse().encode(0)
    pair = Pair("ApiVersionsResponse", 1, ApiVersionsResponse, 0, True)
    [verdict] = refusals.judge(newest, [(pair, mutating.Mutant(data, "truncated"))], newest=True)
    assert verdict.kind == "only we accept"
    assert verdict.wrong


def test_a_codec_that_refuses_too_much_is_found(newest: Oracle) -> None:
    data = ApiVersionsResponse().encode(0)
    pair = Pair("ApiVersionsResponse", 0, ApiVersionsResponse, 1, True)
    [verdict] = refusals.judge(newest, [(pair, mutating.Mutant(data, "v0 as v1"))], newest=True)
    assert verdict.kind == "only Java accepts"
    assert verdict.wrong


def test_the_oracle_answers_nonsense_with_an_error_and_goes_on(newest: Oracle) -> None:
    answers = list(
        newest.ask(
            [
                {"op": "fly"},
                {"op": "read", "name": "NoSuchMessage", "version": 0, "bytes": ""},
                {"op": "read", "name": "FetchRequest", "version": 99, "bytes": ""},
                {"op": "read", "name": "FetchRequest", "version": 4, "bytes": "zz"},
                {"op": "read", "name": "FetchRequest", "version": 4, "bytes": "00"},
                {"op": "make", "name": "EndTxnMarker", "version": 0, "style": "default"},
            ]
        )
    )
    assert all("error" in answer and "text" in answer for answer in answers[:-1])
    assert answers[-1]["bytes"] == "00000000"


def test_the_same_seed_makes_the_same_object(newest: Oracle) -> None:
    first, again, other = newest.ask(
        {"op": "make", "name": "FetchResponse", "version": 17, "style": "random", "seed": seed} for seed in (1, 1, 2)
    )
    assert first == again != other


def test_every_message_of_ours_is_in_a_release(found: list[Pair]) -> None:
    with start("3.9.1") as oracle:
        older = pairs("3.9.1", oracle.one(op="list")["messages"])
    compared = {(pair.ours.spec.name, pair.our_version) for pair in [*found, *older.same]}
    assert compared == {(entry.name, version) for entry in REGISTRY for version in entry.valid_versions}


def test_the_borders_of_text_and_tags(newest: Oracle, found: list[Pair]) -> None:
    named = {(pair.name, pair.version): pair for pair in found}
    work = [(named[name, version], mutant) for name, version, mutant in mutating.borders()]
    verdicts = list(refusals.judge(newest, work, newest=True))
    assert wrong(verdicts) == []
    kinds = {mutant.what: verdict.kind for (_, mutant), verdict in zip(work, verdicts, strict=True)}
    assert kinds["text of 32767 bytes"] == kinds["10000 tags"] == refusals.ACCEPTED
    assert kinds["text of 40000 bytes"] == kinds["10001 tags"] == refusals.REFUSED


def test_the_prefixes_of_records(newest: Oracle, found: list[Pair]) -> None:
    results = list(converting.prefixes(newest, found))
    assert len(results) > 100
    assert wrong(results) == []


_UUIDS = (
    "zz__--zzzzzzzzzzzzzzzw",
    "zz//++zzzzzzzzzzzzzzzw",
    "AAAAAAAAAAAAAAAAAAAAAA==",
    "AAAAAAAAAAAAAAAAAAAAAB",
    "AAAA",
    "",
)
_BASE64 = ("", "AAA=", "AA==", "AA", "A", "AAAA=", "AA=A", "AB==", "-_-_", "+/+/", "=", "!", "é")


def test_uuids_and_bytes_in_json(newest: Oracle, found: list[Pair]) -> None:
    named = {(pair.name, pair.version): pair for pair in found}
    uuids, data = named["DeleteTopicsRequest", 6], named["SaslAuthenticateRequest", 2]
    work: list[json_input.Input] = [
        (uuids, {"topics": [{"name": None, "topicId": text}], "timeoutMs": 1}, text) for text in _UUIDS
    ] + [(data, {"authBytes": text}, text) for text in _BASE64]
    readings = list(json_input.read_both(newest, work))
    assert [str(reading) for reading in readings if reading.kind or reading.wrong] == []
