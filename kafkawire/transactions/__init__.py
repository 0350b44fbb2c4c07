"""Transactions: which are open, what the coordinator knows of them, and the verdict. Pure functions over facts.

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

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafkawire.transactions.appends import Append, append_of
    from kafkawire.transactions.assembly import conclude
    from kafkawire.transactions.checks import Answer, Breach
    from kafkawire.transactions.checks.batches import LogChecks
    from kafkawire.transactions.checks.partition import check
    from kafkawire.transactions.cluster import choose_replicas
    from kafkawire.transactions.committed import outcome_of, read_committed
    from kafkawire.transactions.coordinator import IdLog, registration, standing
    from kafkawire.transactions.copies import CoordinatorLog, CopiedCase
    from kafkawire.transactions.facts import Facts, Open, Owner, Partition, Place, Placed, Registration, Segment
    from kafkawire.transactions.local import audit
    from kafkawire.transactions.model import state_name
    from kafkawire.transactions.producers import Producer
    from kafkawire.transactions.replay import Ended, Replay, last_stable_offset
    from kafkawire.transactions.settings import Settings
    from kafkawire.transactions.verdicts import Case, judge

#: Name -> module.
_HOMES = {
    "Answer": "checks",
    "Append": "appends",
    "Breach": "checks",
    "Case": "verdicts",
    "CoordinatorLog": "copies",
    "CopiedCase": "copies",
    "Ended": "replay",
    "Facts": "facts",
    "IdLog": "coordinator",
    "LogChecks": "checks.batches",
    "Open": "facts",
    "Owner": "facts",
    "Partition": "facts",
    "Place": "facts",
    "Placed": "facts",
    "Producer": "producers",
    "Registration": "facts",
    "Replay": "replay",
    "Segment": "facts",
    "Settings": "settings",
    "append_of": "appends",
    "audit": "local",
    "check": "checks.partition",
    "choose_replicas": "cluster",
    "conclude": "assembly",
    "judge": "verdicts",
    "last_stable_offset": "replay",
    "outcome_of": "committed",
    "read_committed": "committed",
    "registration": "coordinator",
    "standing": "coordinator",
    "state_name": "model",
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
    "Partition",
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


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'kafkawire.transactions' has no attribute {name!r}")
    value = getattr(import_module(f"kafkawire.transactions.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
