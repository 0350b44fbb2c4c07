"""`cause_of`: why a transaction hangs, is stuck or is late, by fingerprints of known defects and settings.

`FINGERPRINTS` is data. Each row has a function that looks at a `Case` and returns how sure it is, and why, or None. The
first row that fits is the cause. docs/transactions.md has the source of each row, and whether it was
reproduced.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from kafkawire.rows import Cause
from kafkawire.transactions.cluster.cluster_traits import VERIFICATION, Release
from kafkawire.transactions.coordinator.coordinator_rules import is_exhausted, raises_epoch
from kafkawire.transactions.facts import TRANSACTION_STATE
from kafkawire.transactions.formatting import duration
from kafkawire.transactions.verdict.case import Case

PROVEN, CONSISTENT, UNKNOWN = "proven", "consistent", "unknown"

Match = tuple[str, list[str]]


class Fingerprint(msgspec.Struct, frozen=True, kw_only=True):
    """A known cause, and how it is recognized.

    Attributes:
        name, issues, affected, fixed, remedy: as in `rows.Cause`.
        reasons: of findings that it can be the cause of.
        fixed_in: the first minor release without it: a cluster whose brokers are all as new does not match.
        fits: returns how sure it is, and why; None where it does not fit.
    """

    name: str
    reasons: tuple[str, ...]
    fits: Callable[[Case, str], Match | None]
    remedy: str
    issues: tuple[str, ...] = ()
    affected: str | None = None
    fixed: str | None = None
    fixed_in: Release | None = None


def cause_of(case: Case, reason: str) -> Cause | None:
    """The cause of a finding; None for a reason that needs none (a live transaction)."""
    if not any(reason in one.reasons for one in FINGERPRINTS):
        return None
    oldest = case.traits.oldest
    for one in FINGERPRINTS:
        if reason not in one.reasons or (one.fixed_in and oldest and oldest >= one.fixed_in):
            continue
        found = one.fits(case, reason)
        if found is not None:
            certainty, evidence = found
            return Cause(
                name=one.name,
                certainty=certainty,
                issues=one.issues,
                affected=one.affected,
                fixed=one.fixed,
                evidence=tuple(evidence),
                remedy=one.remedy,
            )
    return Cause(name="unknown", certainty=UNKNOWN, evidence=tuple(_excluded(case, reason)))


def described(cause: Cause | None) -> list[str]:
    """A cause as sentences, for the command line and the report; empty where there is none."""
    if cause is None:
        return []
    if cause.name == "unknown":
        return ["Cause: unknown.", *cause.evidence]
    issues = f"; {', '.join(cause.issues)}" if cause.issues else ""
    texts = ("Affected", cause.affected), ("Fixed in", cause.fixed), ("To prevent it", cause.remedy)
    return [
        f"Cause: {cause.name} ({cause.certainty}{issues}).",
        *cause.evidence,
        *(f"{what}: {text}." for what, text in texts if text is not None),
    ]


# What each looks at ---------------------------------------------------------------------------------------------------


def _fenced(case: Case, _: str) -> Match | None:
    fence, writer = case.open.coordinator_epoch, case.writer_epoch
    if fence is None or not fence > writer >= 0:
        return None
    return PROVEN, [
        f"The partition has seen a marker of coordinator epoch {fence}; the coordinator's epoch is {writer}, and it "
        "rises by one with each election."
    ]


def _exhausted(case: Case, _: str) -> Match | None:
    value, epoch = case.value, case.open.producer_epoch
    if value is None or not is_exhausted(epoch):
        return None
    version = case.traits.transaction_version
    if version is None:
        version = 2 if raises_epoch(value.client_transaction_version) else 0
    if version < 2:
        return None
    return CONSISTENT, [
        f"The producer epoch is {epoch}, of at most 32767, and transaction.version 2 raises it with each transaction."
    ]


def _moved(case: Case, _: str) -> Match | None:
    decided, now = case.decided_epoch, case.writer_epoch
    if decided is None or decided < 0 or now < 0:
        return UNKNOWN, ["Whether its coordinator moved after the decision is not known."]
    if decided >= now:
        return None
    return CONSISTENT, [
        f"It was decided by a coordinator of epoch {decided}, and the epoch is {now} now: the coordinator moved while "
        "markers were outstanding."
    ]


def _marker_lost(case: Case, _: str) -> Match | None:
    return None if case.diverged is None else (PROVEN, [case.diverged])


def _never_assigned(case: Case, _: str) -> Match | None:
    free, producer_id = case.traits.first_free_producer_id, case.open.producer_id
    if free is None or producer_id < free or case.transactional_id is not None:
        return None
    return PROVEN, [f"Producer ids below {free} were handed out; this one is {producer_id}."]


def _expired(case: Case, _: str) -> Match | None:
    if case.expired:
        return PROVEN, [f"A tombstone of transactional id {case.transactional_id!r} is in {TRANSACTION_STATE}."]
    limit, age = case.traits.id_expiration_ms, case.age_ms
    if limit is None or age is None or age <= limit:
        return None
    return CONSISTENT, [
        f"Its last batch is {duration(age)} old, and ids without a transaction expire after {duration(limit)} "
        "(transactional.id.expiration.ms)."
    ]


def _log_lost(case: Case, _: str) -> Match | None:
    limit, age, free = case.traits.id_expiration_ms, case.age_ms, case.traits.first_free_producer_id
    if case.transactional_id is not None or limit is None or age is None or age > limit:
        return None
    if free is None:
        return UNKNOWN, ["Whether its producer id was ever handed out is not known."]
    return CONSISTENT, [
        f"Its producer id was handed out, its last batch is {duration(age)} old, and an id does not expire within "
        f"{duration(limit)}; {TRANSACTION_STATE} has no record of it."
    ]


def _unverified(case: Case) -> Match | None:
    """A leader that verifies takes no batch of a partition that is not in the producer's ongoing transaction."""
    if case.traits.verified:
        return None
    if case.traits.verified is None:
        return CONSISTENT, [f"Whether brokers verified partitions then ({VERIFICATION}) is not known."]
    return PROVEN, [case.traits.why]


def _late_data(case: Case, _: str) -> Match | None:
    if case.open.coordinator_epoch is None or case.open.coordinator_epoch < 0 or _version(case) >= 2:
        return None
    found = _unverified(case)
    seen = "The partition has a marker of the producer before the batch: its transaction had ended there."
    return None if found is None else (found[0], [seen, *found[1]])


def _not_added(case: Case, reason: str) -> Match | None:
    """An ended transaction's record has no partitions any more: the data may also be of it, and its marker lost."""
    found = _unverified(case)
    if found is None:
        return None
    return found[0] if reason == "partition_not_in_transaction" else CONSISTENT, [
        "The partition is not in a transaction of the producer, and its leader took the batch.",
        *found[1],
    ]


def _version(case: Case) -> int:
    """The transaction's version: that of the coordinator's record, which no cluster's feature exceeds."""
    value, feature = case.value, case.traits.transaction_version
    version = 0 if value is None else value.client_transaction_version
    return version if feature is None else min(version, feature)


def _excluded(case: Case, reason: str) -> list[str]:
    if case.traits.verified and reason in _UNVERIFIED:
        return [
            f"{case.traits.why} So no leader takes late data now: verification was switched on later, or an unclean "
            "election lost the marker."
        ]
    return []


# The table ------------------------------------------------------------------------------------------------------------

_UNVERIFIED = ("transaction_ended", "epoch_bumped", "partition_not_in_transaction")
_VERIFY = (
    f"upgrade brokers to 3.6.1 or later and leave {VERIFICATION} at true; from 4.0 on, raise transaction.version to 2 "
    "and use clients that support it"
)
_BEFORE_VERIFICATION = f"brokers before 3.6, and later ones with {VERIFICATION}=false"
_VERIFICATION_CAME = "3.6.0 (verification of partitions), 4.0.0 with transaction.version 2"

FINGERPRINTS = (
    Fingerprint(
        name="coordinator_epoch_from_the_future",
        reasons=("stuck_prepare",),
        fits=_fenced,
        affected="all: kafka-transactions.sh abort takes any --coordinator-epoch; so does a new topic "
        f"{TRANSACTION_STATE}, whose leader epochs begin at 0",
        remedy='complete it as decided (docs/transactions.md, "A stuck Prepare"); abort with the epoch that '
        "DescribeProducers returns",
    ),
    Fingerprint(
        name="producer_epoch_exhausted",
        reasons=("stuck_prepare", "late", "epoch_bumped"),
        issues=("KAFKA-20090", "KAFKA-19367"),
        fits=_exhausted,
        affected="4.0 to 4.2 with transaction.version 2 (KAFKA-19367: 4.0.0 alone)",
        fixed="4.3.0 (KAFKA-19367: 4.0.1 and 4.1.0)",
        fixed_in=(4, 3),
        remedy="upgrade brokers to 4.3 or later; the coordinator then ends it",
    ),
    Fingerprint(
        name="coordinator_moved",
        reasons=("stuck_prepare",),
        issues=("KAFKA-16352",),
        fits=_moved,
        affected="brokers up to 3.7",
        fixed="3.8.0",
        fixed_in=(3, 8),
        remedy=f"restart the coordinator (a new leader of its partition of {TRANSACTION_STATE} sends the markers "
        "again), and upgrade brokers to 3.8 or later",
    ),
    Fingerprint(
        name="marker_lost",
        reasons=_UNVERIFIED,
        issues=("KAFKA-20716",),
        fits=_marker_lost,
        affected="all, where a replica that is not in sync becomes leader",
        remedy="set unclean.leader.election.enable=false for topics with transactions; records may be lost, too: "
        "compare the replicas before the abort",
    ),
    Fingerprint(
        name="producer_id_never_assigned",
        reasons=("no_transactional_id",),
        fits=_never_assigned,
        affected="clients that invent producer ids, and metadata restored from an older copy",
        remedy="find the client; no release of Kafka's own clients does this",
    ),
    Fingerprint(
        name="transactional_id_expired",
        reasons=("no_transactional_id",),
        issues=("KAFKA-14402", "KIP-890"),
        fits=_expired,
        affected=_BEFORE_VERIFICATION,
        fixed=_VERIFICATION_CAME,
        remedy=f"an id with an open transaction does not expire, so the batch was in none: {_VERIFY}",
    ),
    Fingerprint(
        name="coordinator_log_lost",
        reasons=("no_transactional_id",),
        fits=_log_lost,
        affected=f"all, where {TRANSACTION_STATE} was deleted, truncated by an unclean election, or restored",
        remedy=f"{TRANSACTION_STATE} with replication factor 3, min.insync.replicas=2 and "
        "unclean.leader.election.enable=false",
    ),
    Fingerprint(
        name="late_data_after_marker",
        reasons=("transaction_ended", "epoch_bumped"),
        issues=("KAFKA-14402", "KIP-890", "KAFKA-12671"),
        fits=_late_data,
        affected=_BEFORE_VERIFICATION,
        fixed=_VERIFICATION_CAME,
        remedy=_VERIFY,
    ),
    Fingerprint(
        name="partition_never_added",
        reasons=_UNVERIFIED,
        issues=("KAFKA-14402", "KIP-890"),
        fits=_not_added,
        affected=_BEFORE_VERIFICATION,
        fixed=_VERIFICATION_CAME,
        remedy=_VERIFY,
    ),
)
