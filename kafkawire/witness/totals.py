"""`Totals`: counts of some partitions, how they are added up, and the rows that state them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from kafkawire.kafka_errors import error_name
from kafkawire.logdir.transaction_states import STATES
from kafkawire.rows import FateTotal, Row
from kafkawire.witness import batch_fates as fates
from kafkawire.witness.batch_fates import FATES, REASONS, RESPONSES
from kafkawire.witness.exchange_rows import Place
from kafkawire.witness.fetched import READINGS, ReadCounts
from kafkawire.witness.group_judgement import commit_reason, commit_rows
from kafkawire.witness.judgement import Key
from kafkawire.witness.transaction_rules import transaction_rows

#: Partitions without a log that are named, at most.
_NAMED = 20


@dataclass
class Totals:
    """Counts of partitions.

    Attributes:
        fates, records: batches and records by what became of them. reads: what consumers were given. ended: batches by
            how their transaction was ended and what it is in the copies. commits: offsets of groups.
        numbers: other counts, by name. without: some partitions without a log. listed: rows of anomalies.
    """

    fates: Counter[Key] = field(default_factory=Counter)
    records: Counter[Key] = field(default_factory=Counter)
    reads: ReadCounts = field(default_factory=ReadCounts)
    ended: Counter[tuple[int, int]] = field(default_factory=Counter)
    commits: Counter[tuple[int, int]] = field(default_factory=Counter)
    numbers: Counter[str] = field(default_factory=Counter)
    without: list[Place] = field(default_factory=list)
    listed: list[Row] = field(default_factory=list)

    def add(self, other: Totals, most: int) -> None:
        """Add the totals of other partitions. `most`: rows that are listed, at most."""
        for name in ("fates", "records", "ended", "commits", "numbers"):
            getattr(self, name).update(getattr(other, name))
        self.reads.batches.update(other.reads.batches)
        self.reads.records.update(other.reads.records)
        self.numbers["without"] += len(other.without)
        self.without += other.without[: _NAMED - len(self.without)]
        self.listed += other.listed[: max(most - len(self.listed), 0)]

    def number(self, chosen: Callable[[Key], bool]) -> int:
        """The number of batches of some fates."""
        return sum(batches for key, batches in self.fates.items() if chosen(key))

    @property
    def read_anomalies(self) -> int:
        return sum(number for (_, kind), number in self.reads.batches.items() if READINGS[kind].rule)

    @property
    def read_unknown(self) -> int:
        return sum(number for (_, kind), number in self.reads.batches.items() if READINGS[kind].reason)

    @property
    def commit_unknown(self) -> int:
        return sum(number for key, number in self.commits.items() if commit_reason(*key) is not None)

    def rows(self) -> Iterator[Row]:
        """`FateTotal`s, `ReadTotal`s, `TransactionTotal`s and `CommitTotal`s."""
        yield from self._fates()
        yield from self.reads.rows()
        yield from transaction_rows(self.ended)
        yield from commit_rows(self.commits)

    def _fates(self) -> Iterator[FateTotal]:
        ordered = sorted(self.fates.items(), key=lambda item: (-item[0][0], item[0]))
        for key, batches in ordered:
            response, fate, state, reason, error = key
            name, detail = REASONS.get(reason, (None, None))
            yield FateTotal(
                response=RESPONSES[response],
                fate=FATES[fate].name,
                transaction=STATES[state] if state >= 0 else None,
                reason=name,
                error=error_name(error) if error else None,
                detail=detail,
                batches=batches,
                records=self.records[key],
            )


def acknowledged(key: Key) -> bool:
    """Whether a fate is of batches with an answer without error."""
    return key[0] == fates.ACKED
