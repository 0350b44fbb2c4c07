"""A share of `python -m tools.conformance.batches`, with Kafka's own classes; and that it finds what is wrong."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from itertools import islice

import pytest

from kafkawire.records import CODECS, Record, batch, build
from tests.records.test_records_cases import CASES, RECORDS
from tools.conformance.batches import batch_judging, sources
from tools.conformance.batches.__main__ import page, summary
from tools.conformance.batches.batch_comparison import Amounts, BatchOutcome, compare, mutated
from tools.conformance.batches.describing import read_one
from tools.oracle import Oracle, OracleUnavailableError

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    try:
        found = Oracle("4.4.0")
    except OracleUnavailableError as error:
        if os.environ.get("KAFKAWIRE_REQUIRE_BROKER"):
            raise
        pytest.skip(str(error))
    with found:
        yield found


def test_a_share_of_all_comparisons(oracle: Oracle) -> None:
    outcome = compare(oracle, Amounts(rounds=1, mutants=3000), lambda _: None, recorded=False)
    assert outcome.failures == []
    # The mutants are of use: many are refused, and many are not.
    assert outcome.kinds["mutated", batch_judging.REFUSED] > 1000
    assert outcome.kinds["mutated", batch_judging.SAME] > 500
    meant = [outcome.kinds["mutated", each.name] for each in batch_judging.REFUSALS]
    assert 0 < sum(meant) < 100
    assert outcome.compared == sum(outcome.sound.values()) + 3000


def test_every_library_has_each_magic_and_codec() -> None:
    found: dict[str, set[tuple[int, str]]] = {}
    for each in sources.by_libraries():
        found.setdefault(each.source.rsplit("-", 1)[0], set()).add(sources.kind_of(each.data))
    every = {(magic, codec) for magic in (0, 1, 2) for codec in CODECS if magic == 2 or codec != "zstd"}
    assert found == {"kafka-python": every, "librdkafka": every, "aiokafka": every - {(0, "lz4")}}


def test_what_clients_and_brokers_wrote_is_read_alike(oracle: Oracle) -> None:
    """One of each archive and kind, and what 15 clients sent."""
    seen: Counter[tuple[int, str]] = Counter()
    chosen = [each.data for each in sources.recorded_captures()]
    for each in sources.recorded_logs():
        seen[sources.kind_of(each.data)] += 1
        if seen[sources.kind_of(each.data)] <= 40:
            chosen.append(each.data)
    verdicts = list(batch_judging.judge(oracle, chosen))
    assert [str(verdict) for verdict in verdicts if verdict.wrong] == []
    assert {verdict.kind for verdict in verdicts} <= {batch_judging.SAME, batch_judging.WRAPPER_OFFSETS.name}


def test_batches_of_which_readers_disagreed_are_read_alike(oracle: Oracle) -> None:
    kinds = {name: batch_judging.REFUSED if RECORDS[name] is None else batch_judging.SAME for name in CASES}
    verdicts = batch_judging.judge(oracle, CASES.values())
    assert {name: (verdict.kind, verdict.wrong) for name, verdict in zip(CASES, verdicts, strict=True)} == {
        name: (kind, None) for name, kind in kinds.items()
    }


# The comparisons find what is wrong -----------------------------------------------------------------------------------

WHOLE = build([Record(b"k", b"v"), Record(b"k2", None)], base_offset=5, codec="gzip")


def test_a_record_that_differs_is_found(oracle: Oracle, monkeypatch: pytest.MonkeyPatch) -> None:
    [verdict] = batch_judging.judge(oracle, [WHOLE])
    assert (verdict.kind, verdict.wrong) == (batch_judging.SAME, None)
    read = read_one(WHOLE)
    assert isinstance(read, dict)
    read["records"][1]["timestamp"] += 1
    monkeypatch.setattr(batch_judging, "read_one", lambda *_, **__: read)
    [verdict] = batch_judging.judge(oracle, [WHOLE])
    assert verdict.wrong is not None
    assert "records: ours" in verdict.wrong


def test_a_batch_that_only_one_side_reads_is_found(oracle: Oracle, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = WHOLE[:-3]
    monkeypatch.setattr(batch_judging, "read_one", lambda *_, **__: {"records": []})
    [verdict] = batch_judging.judge(oracle, [broken])
    assert verdict.wrong is not None
    assert "only Java refuses" in verdict.wrong
    monkeypatch.setattr(batch_judging, "read_one", lambda *_, **__: "no reason that is meant")
    [verdict] = batch_judging.judge(oracle, [WHOLE])
    assert verdict.wrong == "only we refuse: no reason that is meant"


def test_readers_of_ours_that_differ_are_found(oracle: Oracle, monkeypatch: pytest.MonkeyPatch) -> None:
    real = batch.decompress

    def changed(*arguments: object, **options: object) -> object:
        monkeypatch.setattr(batch, "decompress", real)
        raise batch.CompressionError("once")

    monkeypatch.setattr(batch, "decompress", changed)
    [verdict] = batch_judging.judge(oracle, [WHOLE])
    assert verdict.wrong is not None
    assert "the native reader has" in verdict.wrong


def test_a_sound_batch_that_both_refuse_is_a_failure(oracle: Oracle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "by_libraries", lambda: iter([sources.Sound("a library", WHOLE[:-1])]))
    monkeypatch.setattr(sources, "recorded_captures", lambda: iter(()))
    outcome = compare(oracle, Amounts(rounds=0, mutants=0), lambda _: None, recorded=False)
    assert [failure.split(": ")[:2] for failure in outcome.failures] == [["as written", batch_judging.REFUSED]]


# ----------------------------------------------------------------------------------------------------------------------


def test_equal_seeds_give_equal_mutants(monkeypatch: pytest.MonkeyPatch) -> None:
    """At any time: gzip's header has one."""
    sound = [sources.Sound("us", build([Record(b"k", b"v" * 40)] * 3, codec=codec)) for codec in CODECS]
    found = []
    for seed, now in ((1, 1e9), (1, 2e9), (2, 1e9)):
        monkeypatch.setattr(time, "time", lambda now=now: now)
        found.append(list(islice(mutated(sound, seed), 1000)))
    first, again, other = found
    assert first == again != other


def test_the_page_has_the_table_of_what_is_meant() -> None:
    outcome = BatchOutcome(
        Counter({("Kafka's Java", 2, "none"): 1200, ("Kafka's Java", 0, "gzip"): 3, ("recorded logs", 1, "lz4"): 7}),
        Counter(
            {("as written", batch_judging.SAME): 1210, ("mutated", batch_judging.REFUSED): 30_000, ("mutated", ""): 1}
        ),
        ["mutated: : offsets `differ`"],
    )
    shown = page(outcome)
    assert "| Kafka's Java | 3 | 0 | 1200 | 1203 |" in shown
    assert "| mutated | refused by both | 30,000 |" in shown
    assert "**1 difference** that is not meant." in shown
    assert "- `mutated: : offsets 'differ'`" in shown
    for meant in (*batch_judging.REFUSALS, *batch_judging.FIELDS):
        assert f"| {meant.name} | {meant.why} |" in shown
    assert summary(outcome) == "31,211 batches, of which 30,001 are mutated; 1 differences that are not meant."
