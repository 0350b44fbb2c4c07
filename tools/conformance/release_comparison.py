"""One release, all comparisons: what was compared, and what differs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from tools.conformance import converting, differential, headers, json_input, mutating, refusals
from tools.conformance.pairing import Pair, Pairs, pairs
from tools.conformance.verdict import Verdict
from tools.oracle import Oracle

NEWEST = "4.4.0"
#: 4.0 dropped old versions of many messages: this release's classes decide for those.
BEFORE_4 = "3.9.1"
RELEASES = (
    "4.4.0", "4.3.1", "4.2.0", "4.1.0", "4.0.0", "3.9.1", "3.8.1", "3.7.2", "3.6.2", "3.4.1", "3.2.3", "3.0.2",
    "2.8.2", "2.7.2", "2.6.3", "2.5.1", "2.4.1",
)  # fmt: skip


class Amounts(NamedTuple):
    """How much is compared, for each message and version."""

    objects: int = 8  # each way, beside the default object
    mutants: int = 280
    json_inputs: int = 20
    conversions: int = 4


class ReleaseOutcome(NamedTuple):
    """What one release was compared in."""

    release: str
    messages: int
    versions: int
    different: list[tuple[str, int, str]]  # previews with another layout: not compared
    compared: Counter[str]  # by comparison
    classes: Counter[tuple[str, str]]  # (comparison, class) of how both took it, and of differences that are meant
    failures: list[str]


def compare(release: str, amounts: Amounts, note: Callable[[str], None]) -> ReleaseOutcome:
    """Runs the comparisons that a release supports. `note` is called with the name of each that begins.

    Raises OracleUnavailableError.

    Args:
        release: of Kafka, "4.4.0". `amounts`: how many objects and mutants.
    """
    compared: Counter[str] = Counter()
    classes: Counter[tuple[str, str]] = Counter()
    with Oracle(release) as oracle:
        found = pairs(release, oracle.one(op="list")["messages"])
        failures = [f"{name}: we do not have this message or version" for name in found.missing]
        for what, verdicts in _comparisons(oracle, found, amounts):
            note(what)
            for verdict in verdicts:
                compared[what] += 1
                classes[what, verdict.kind] += bool(verdict.kind)
                if verdict.wrong:
                    failures.append(f"{what}: {verdict}")
    different = [(pair.name, pair.version, why) for pair, why in found.different]
    names = {pair.name for pair in found.same}
    return ReleaseOutcome(release, len(names), len(found.same), different, compared, +classes, failures)


def _comparisons(oracle: Oracle, found: Pairs, amounts: Amounts) -> Iterator[tuple[str, Iterable[Verdict]]]:
    """The comparisons that a release supports, each with its name, in their order."""
    release, same, newest = oracle.release, found.same, oracle.release == NEWEST
    work = [(pair, style) for pair in same for style in differential.styles(amounts.objects)]
    yield "Java to ours", differential.java_first(oracle, work, newest=newest)
    yield "ours to Java", differential.ours_first(oracle, work, newest=newest)
    yield "frames", headers.check(oracle, {(pair.ours.spec.name, pair.version) for pair, _ in found.different})
    with_json = [pair for pair in same if pair.json]
    yield "JSON inputs", json_input.read_both(oracle, json_input.java_made(oracle, with_json, range(2)))
    if release.startswith("4."):
        yield "prefixes", converting.prefixes(oracle, same)
    if release not in (NEWEST, BEFORE_4):
        return
    decided = same if newest else dropped(same)
    seeds = range(amounts.json_inputs)
    sound = [(pair, json_input.sound(pair, seed), "sound") for pair in decided for seed in seeds]
    broken = [(pair, *json_input.broken(pair, seed)) for pair in decided for seed in seeds]
    yield "JSON inputs", json_input.read_both(oracle, sound + broken)
    own = set(decided)
    rewritten = [
        item
        for seed in range(amounts.conversions)
        for item in converting.conversions(same, seed)
        if item.pair in own or item.to in own
    ]
    yield "conversions", converting.convert_both(oracle, rewritten)
    if newest:
        yield "defaults", converting.defaults(oracle, same)
    yield "mutants", refusals.judge(oracle, list(_mutants(decided, amounts)), newest=newest)


def _mutants(pairs: list[Pair], amounts: Amounts) -> Iterator[tuple[Pair, mutating.Mutant]]:
    named = {(pair.name, pair.version): pair for pair in pairs}
    for name, version, mutant in mutating.borders():
        if pair := named.get((name, version)):
            yield pair, mutant
    # A dozen of each value: making a value and surveying it costs more than mutating it.
    for seed in range(amounts.mutants // 20):
        for pair in pairs:
            for mutant in mutating.mutants(pair, seed, 20):
                yield pair, mutant


def dropped(found: list[Pair]) -> list[Pair]:
    """The pairs that the newest release has no classes for."""
    with Oracle(NEWEST) as oracle:
        kept = {
            (message["name"], version)
            for message in oracle.one(op="list")["messages"]
            for version in range(message["low"], message["high"] + 1)
        }
    return [pair for pair in found if (pair.ours.spec.name, pair.our_version) not in kept]
