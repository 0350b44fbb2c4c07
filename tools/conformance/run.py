"""One release, all comparisons: what was compared, and what differs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from tools.conformance import converting, differential, headers, json_input, mutating, refusals
from tools.conformance.pairing import Pair, Pairs, pairs
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
    with Oracle(release) as oracle:
        found = pairs(release, oracle.one(op="list")["messages"])
        work = _Comparison(oracle, found, release == NEWEST, amounts, note)
        work.both_ways()
        work.headers()
        work.json_back()
        if release.startswith("4."):
            work.prefixes()
        if release in (NEWEST, BEFORE_4):
            decided = found.same if release == NEWEST else dropped(found.same)
            work.json(decided)
            work.versions(decided)
            work.mutants(decided)
    different = [(pair.name, pair.version, why) for pair, why in found.different]
    return ReleaseOutcome(
        release,
        len({pair.name for pair in found.same}),
        len(found.same),
        different,
        work.compared,
        work.classes,
        [*(f"{name}: we do not have this message or version" for name in found.missing), *work.failures],
    )


class _Comparison:
    def __init__(
        self, oracle: Oracle, found: Pairs, newest: bool, amounts: Amounts, note: Callable[[str], None]
    ) -> None:
        self.oracle = oracle
        self.pairs = found.same
        self.different = {(pair.ours.spec.name, pair.version) for pair, _ in found.different}
        self.newest = newest
        self.amounts = amounts
        self.note = note
        self.compared: Counter[str] = Counter()
        self.classes: Counter[tuple[str, str]] = Counter()
        self.failures: list[str] = []

    def count(self, what: str, results: Iterable[Any]) -> None:
        """Counts results. None means: all alike."""
        self.note(what)
        for result in results:
            self.compared[what] += 1
            if result is not None:
                self.failures.append(f"{what}: {result}")

    def both_ways(self) -> None:
        work = [(pair, style) for pair in self.pairs for style in differential.styles(self.amounts.objects)]
        self.count("Java to ours", differential.java_first(self.oracle, work, newest=self.newest))
        self.count("ours to Java", differential.ours_first(self.oracle, work, newest=self.newest))

    def headers(self) -> None:
        frames, wrong = headers.check(self.oracle)
        wrong = [item for item in wrong if (item.message, item.version) not in self.different]
        self.count("frames", [*wrong, *[None] * (frames - len(wrong))])

    def prefixes(self) -> None:
        self.count("prefixes", converting.prefixes(self.oracle, self.pairs))

    def json_back(self) -> None:
        """JSON that Java made, read by both."""
        pairs = [pair for pair in self.pairs if pair.json]
        self._count_readings(json_input.java_made(self.oracle, pairs, range(2)))

    def _count_readings(self, work: list[json_input.Input]) -> None:
        self.note("JSON inputs")
        for reading in json_input.read_both(self.oracle, work):
            self.compared["JSON inputs"] += 1
            if reading.wrong:
                self.failures.append(str(reading))
            elif reading.kind:
                self.classes["JSON inputs", reading.kind] += 1

    def json(self, pairs: list[Pair]) -> None:
        seeds = range(self.amounts.json_inputs)
        sound = [(pair, json_input.sound(pair, seed), "sound") for pair in pairs for seed in seeds]
        broken = [(pair, *json_input.broken(pair, seed)) for pair in pairs for seed in seeds]
        self._count_readings(sound + broken)

    def versions(self, decided: list[Pair]) -> None:
        rounds, own = range(self.amounts.conversions), set(decided)
        work = [
            item
            for seed in rounds
            for item in converting.conversions(self.pairs, seed)
            if item.pair in own or item.to in own
        ]
        self.note("conversions")
        for result in converting.convert_both(self.oracle, work):
            self.compared["conversions"] += 1
            if result is not None and result.what == converting.NULL_IN_JSON:
                self.classes["conversions", result.what] += 1
            elif result is not None:
                self.failures.append(f"conversions: {result}")
        if self.newest:
            self.count("defaults", converting.defaults(self.oracle, self.pairs))

    def mutants(self, pairs: list[Pair]) -> None:
        self.note("mutants")
        for verdict in refusals.judge(self.oracle, list(self._mutants(pairs)), newest=self.newest):
            self.compared["mutants"] += 1
            self.classes["mutants", verdict.kind] += 1
            if verdict.wrong:
                self.failures.append(f"mutants: {verdict}")

    def _mutants(self, pairs: list[Pair]) -> Iterator[tuple[Pair, mutating.Mutant]]:
        named = {(pair.name, pair.version): pair for pair in pairs}
        for name, version, mutant in mutating.borders():
            if pair := named.get((name, version)):
                yield pair, mutant
        # A dozen of each value: making a value and surveying it costs more than mutating it.
        for seed in range(self.amounts.mutants // 20):
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
