"""Transactions: which are open, their state at the coordinator, and the verdict. Pure functions over facts.

    audit = transactions.audit(logdir.open("kafka-logs/"))
    for finding in audit.findings:           # rows.Finding: hanging, not_hanging or unknown, with evidence
        finding.verdict, finding.reason, finding.topic, finding.partition, finding.producer_id, finding.action

    for answer in transactions.check(partition):             # violated, holds or not_checkable, rule by rule
        answer.check, answer.answer, answer.breaches

The parts:

- `append_of` and `Replay`: the producer state of a partition, from its batches
- `read_committed`: the batches that a read_committed consumer returns
- `IdLog` and `standing`: the records of `__transaction_state`
- `judge`: the verdict on one `Case`
- `conclude`: facts -> audit

Each name is imported on first use: verdicts on a live cluster do not import `logdir`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkawire._first_use import on_first_use

if TYPE_CHECKING:
    from kafkawire.transactions.answers import Answer, Breach, Placed
    from kafkawire.transactions.audit_result import conclude
    from kafkawire.transactions.case import Case
    from kafkawire.transactions.cluster_facts import Facts, choose_replicas
    from kafkawire.transactions.committed_batches import outcome_of, read_committed
    from kafkawire.transactions.coordinator_copies import CoordinatorLog
    from kafkawire.transactions.coordinator_log import IdLog, registration, standing
    from kafkawire.transactions.coordinator_rules import state_name
    from kafkawire.transactions.copied_case import CopiedCase
    from kafkawire.transactions.facts import Open, Owner, PartitionFacts, Place, Registration, Segment
    from kafkawire.transactions.local_audit import audit
    from kafkawire.transactions.log_checks import LogChecks
    from kafkawire.transactions.producer_append import Append, append_of
    from kafkawire.transactions.producer_state import Producer
    from kafkawire.transactions.replay import Ended, Replay, last_stable_offset
    from kafkawire.transactions.replica_facts import check
    from kafkawire.transactions.settings import Settings
    from kafkawire.transactions.verdicts import judge

#: Name -> module.
_HOMES = {
    "Answer": "answers",
    "Append": "producer_append",
    "Breach": "answers",
    "Case": "case",
    "CoordinatorLog": "coordinator_copies",
    "CopiedCase": "copied_case",
    "Ended": "replay",
    "Facts": "cluster_facts",
    "IdLog": "coordinator_log",
    "LogChecks": "log_checks",
    "Open": "facts",
    "Owner": "facts",
    "PartitionFacts": "facts",
    "Place": "facts",
    "Placed": "answers",
    "Producer": "producer_state",
    "Registration": "facts",
    "Replay": "replay",
    "Segment": "facts",
    "Settings": "settings",
    "append_of": "producer_append",
    "audit": "local_audit",
    "check": "replica_facts",
    "choose_replicas": "cluster_facts",
    "conclude": "audit_result",
    "judge": "verdicts",
    "last_stable_offset": "replay",
    "outcome_of": "committed_batches",
    "read_committed": "committed_batches",
    "registration": "coordinator_log",
    "standing": "coordinator_log",
    "state_name": "coordinator_rules",
}

__all__ = [
    "Answer",
    "Append",
    "Breach",
    "Case",
    "CoordinatorLog",
    "CopiedCase",
    "Ended",
    "Facts",
    "IdLog",
    "LogChecks",
    "Open",
    "Owner",
    "PartitionFacts",
    "Place",
    "Placed",
    "Producer",
    "Registration",
    "Replay",
    "Segment",
    "Settings",
    "append_of",
    "audit",
    "check",
    "choose_replicas",
    "conclude",
    "judge",
    "last_stable_offset",
    "outcome_of",
    "read_committed",
    "registration",
    "standing",
    "state_name",
]


if not TYPE_CHECKING:  # checkers report names that are not there
    __getattr__ = on_first_use(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
