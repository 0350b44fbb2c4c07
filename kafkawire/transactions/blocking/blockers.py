"""`blockers_of`: what blocks a subject (`kafkawire why`), from the findings of an audit or a search, and from what
could not be read. Pure, and the same for copies and live clusters.

All open transactions of one id with one cause are one blocker, however many partitions they have: they have one remedy.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain

import msgspec
from msgspec.structs import replace

from kafkawire.rows import Audit, Blocker, DamageRow, FillShare, Finding, Subject, Unread, Violation, Wait
from kafkawire.transactions.attention import HANGING, STUCK
from kafkawire.transactions.checks.check_names import TIER_CHECKS
from kafkawire.transactions.commands import Reach, at, quoted
from kafkawire.transactions.facts import TRANSACTION_STATE
from kafkawire.transactions.formatting import count, some, when
from kafkawire.transactions.impact.held_back import RETENTION_HELD
from kafkawire.transactions.impact.impact_text import sentences
from kafkawire.transactions.verdict.completeness import attention
from kafkawire.transactions.verdict.verdicts import HELD

YOU, OWNER, COORDINATOR, BROKER = "you", "owner", "coordinator", "broker"
UNSTABLE, NO_LEADER, UNREADABLE, DAMAGE, TIER_LAG = "unstable_offset", "no_leader", "unreadable", "damage", "tier_lag"
OFFLINE, UNREPLAYABLE = "offline_replicas", "unreplayable_record"
RECORDS, OFFSET, COMPACTION, PARTITION = "records", "offset", "compaction", "partition"

#: Most urgent first: what never ends by itself, what cannot be read, what another has to end, what will end.
_ORDER = (
    HANGING, STUCK, NO_LEADER, DAMAGE, UNREPLAYABLE, OFFLINE, UNSTABLE, "ghost", "late", "two_phase_commit", "unknown",
    UNREADABLE, TIER_LAG, "live", "young",
)  # fmt: skip
#: Causes of transactions that a coordinator ends on request.
_TERMINATED = ("late", "live")

Place = tuple[str, int]


class GroupView(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a group.

    Attributes:
        committed: offset by partition.
        partitions: those that it reads: with an offset, or assigned to its members.
        held: the partitions whose offset is in an open transaction, by its producer id.
        unexplained: partitions whose offset cannot be fetched, and it is not known for which transaction.
        own: the partition of `__consumer_offsets` that keeps its offsets; None: there is none, or it is not known.
        gaps: sentences on what is not known.
        doubt: why it may wait elsewhere, a sentence; None: it is known, or in the audit's gaps.
    """

    group: str
    committed: Mapping[Place, int] = {}
    partitions: frozenset[Place] = frozenset()
    held: Mapping[int, frozenset[Place]] = {}
    unexplained: frozenset[Place] = frozenset()
    own: Place | None = None
    gaps: tuple[str, ...] = ()
    doubt: str | None = None


class Fills(msgspec.Struct, frozen=True):
    """What fills a partition of `__consumer_offsets`, and a sentence on what of it was not read."""

    shares: tuple[FillShare, ...]
    doubt: str | None = None


def blockers_of(
    audit: Audit,
    reach: Reach,
    group: GroupView | None = None,
    fills: Mapping[Place, Fills] | None = None,
    places: Collection[Place] | None = None,
) -> tuple[Blocker, ...]:
    """What blocks a subject, the most urgent first.

    Args:
        audit: what concerns the subject: see `concerning`.
        reach: for the commands.
        group: where the subject is one.
        fills: what fills partitions of `__consumer_offsets`.
        places: what is damaged, or could not be read, blocks in these partitions only; None: in all.
    """
    grouped: dict[tuple[str, str | int, str], list[tuple[Finding, tuple[Wait, ...]]]] = {}
    for one in sorted(audit.findings, key=lambda one: (one.topic, one.partition, one.start_offset or 0)):
        waits = tuple(_waits(one, group))
        if waits:
            who = one.producer_id if one.transactional_id is None else one.transactional_id
            grouped.setdefault((one.cluster_id or "", who, _cause(one)), []).append((one, waits))
    found = [
        _of_transactions(
            [one for one, _ in members], tuple(chain(*(waits for _, waits in members))), reach, fills or {}
        )
        for members in grouped.values()
    ]
    found += _of_unread([one for one in audit.unread if places is None or (one.topic, one.partition) in places], reach)
    found += _of_damage([one for one in audit.damage if places is None or (one.topic, one.partition) in places])
    found += _of_tiers(audit.violations)
    if group is not None and group.unexplained:
        found.append(_unexplained(group, reach))
    return tuple(sorted(found, key=urgency))


def urgency(one: Blocker) -> tuple[int, bool, int, str]:
    """The order of blockers. What is waited for now comes before what will be next; then the longest."""
    since = one.begun if one.since is None else one.since
    next_ = bool(one.waits) and not any(wait.now for wait in one.waits)
    return _ORDER.index(one.cause), next_, since or 0, one.transactional_id or ""


def concerning(audit: Audit, subject: Subject, group: GroupView | None = None) -> Audit:
    """The part of an audit that concerns a subject, with all that its answer rests on: what is damaged of internal
    topics of transactions, and all gaps."""
    if subject.transactional_id is not None or subject.producer_id is not None:
        findings = tuple(
            one
            for one in audit.findings
            if (subject.transactional_id in (None, one.transactional_id))
            and (subject.producer_id in (None, one.producer_id))
        )
        return replace(audit, findings=findings, violations=())

    def chosen(topic: str | None, partition: int | None) -> bool:
        if topic is None or partition is None:
            return True
        if group is not None:
            return (topic, partition) in group.partitions or (topic, partition) == group.own
        return topic == subject.topic and (not subject.partitions or partition in subject.partitions)

    return replace(
        audit,
        findings=tuple(one for one in audit.findings if chosen(one.topic, one.partition)),
        damage=tuple(one for one in audit.damage if one.topic == TRANSACTION_STATE or chosen(one.topic, one.partition)),
        violations=tuple(
            one for one in audit.violations if one.check in TIER_CHECKS and chosen(one.topic, one.partition)
        ),
        unread=tuple(one for one in audit.unread if chosen(one.topic, one.partition)),
    )


def together(blockers: Iterable[Blocker], reach: Reach) -> str | None:
    """One command that ends the transactions of all ids that their coordinators can end; None for fewer than two."""
    ids = sorted(
        {
            one.transactional_id
            for one in blockers
            if one.cause in _TERMINATED and one.command is not None and one.transactional_id is not None
        }
    )
    return reach.force_terminate(ids) if len(ids) > 1 else None


def holders(findings: Iterable[Finding]) -> dict[Place, list[str]]:
    """What holds the last stable offset of each partition, a sentence each."""
    found: dict[Place, list[str]] = {}
    for one in findings:
        if one.blocked is not False:
            who = f"producer {one.producer_id}" if one.transactional_id is None else f"{one.transactional_id!r}"
            since = "" if one.blocked_since is None else f" since {when(one.blocked_since)}"
            until = "" if one.blocked_until is None else f", until {when(one.blocked_until)}"
            text = f"{who} ({one.reason}) from offset {one.start_offset}{since}{until}"
            found.setdefault((one.topic, one.partition), []).append(text)
    return found


# Transactions --------------------------------------------------------------------------------------------------------


def _cause(finding: Finding) -> str:
    if finding.verdict == HANGING:
        return HANGING
    return {"stuck_prepare": STUCK, "coverage_incomplete": "unknown"}.get(finding.reason, finding.reason)


def _waits(finding: Finding, group: GroupView | None) -> Iterator[Wait]:
    """What waits for a transaction; nothing where nothing of the subject does."""
    place = finding.topic, finding.partition
    if group is not None and place == group.own:
        for topic, partition in sorted(group.held.get(finding.producer_id, ())):
            yield Wait(
                what=OFFSET,
                topic=topic,
                partition=partition,
                group=group.group,
                offset=group.committed.get((topic, partition)),
                since=finding.blocked_since,
            )
        return
    impact = finding.impact
    released = None if impact is None else impact.held
    if finding.reason == "ghost" and not finding.blocked:
        return
    yield Wait(
        what=RECORDS,
        topic=finding.topic,
        partition=finding.partition,
        offset=max(finding.start_offset or 0, finding.log_start_offset or 0),
        now=finding.blocked is not False,
        since=finding.blocked_since,
        last_timestamp=finding.last_timestamp,
        records=None if released is None else released.records,
        bytes=None if released is None else released.bytes,
        estimated=released is not None and released.estimated,
    )
    if impact is not None and impact.compaction is not None and finding.blocked is not False:
        held = impact.compaction
        yield Wait(
            what=COMPACTION,
            topic=finding.topic,
            partition=finding.partition,
            offset=held.held_offset,
            since=finding.blocked_since,
            bytes=held.bytes,
            freed_bytes=held.freed_bytes,
            estimated=True,
        )


def _of_transactions(
    members: Sequence[Finding], waits: tuple[Wait, ...], reach: Reach, fills: Mapping[Place, Fills]
) -> Blocker:
    first, cause = members[0], _cause(members[0])
    since = min((one.blocked_since for one in members if one.blocked_since is not None), default=None)
    of_it = [one.transaction_start_timestamp for one in members if one.reason in HELD]  # else it is of another one
    begun = min((at for at in of_it if at is not None), default=None)
    until = max((at for one in members if (at := _ends(one)) is not None), default=None)
    needs = next((found for one in members if (found := attention(one)) is not None), None)
    who, action = _who(first, cause, until)
    fill = next((fills[place] for one in members if (place := (one.topic, one.partition)) in fills), None)
    commands = tuple(dict.fromkeys(command for one in members if (command := _command(one, cause, reach))))
    return Blocker(
        cause=cause,
        attention=needs,
        on=_described(first, cause, len(members)),
        who=who,
        action=action,
        waits=waits,
        begun=begun,
        since=since,
        until=until,
        transactional_id=first.transactional_id,
        producer_id=first.producer_id,
        producer_epoch=first.producer_epoch,
        state=first.coordinator_state,
        command=commands[0] if commands else None,
        commands=commands,
        fills=() if fill is None else fill.shares,
        evidence=tuple(
            dict.fromkeys((*chain(*map(_evidence, members)), *([fill.doubt] if fill and fill.doubt else [])))
        ),
        holds=all(premise.holds for one in members for premise in one.premises),
    )


def _ends(finding: Finding) -> int | None:
    """When it ends by itself, at the latest; of one that comes next, too."""
    begun, timeout = finding.transaction_start_timestamp, finding.transaction_timeout_ms
    if finding.blocked_until is not None or begun is None or timeout is None:
        return finding.blocked_until
    return begun + timeout if finding.reason == "live" and finding.coordinator_state == "Ongoing" else None


def _described(finding: Finding, cause: str, members: int) -> str:
    state = finding.coordinator_state
    if state is None:
        known = "no coordinator knows it"
    else:
        known = f"coordinator: {state}, not of this one" if cause == HANGING else f"coordinator: {state}"
    where = f" in {count(members, 'partition')}" if members > 1 else ""
    return f"open transaction of producer {finding.producer_id}, epoch {finding.producer_epoch}{where}; {known}"


def _who(finding: Finding, cause: str, until: int | None) -> tuple[str, str]:
    """Who must act, and how."""
    coordinator = finding.waits_for or "its coordinator"
    if cause == HANGING and not _may_abort(finding):
        return YOU, "no coordinator will ever end it; its marker in another replica shows whether it was committed"
    if cause == HANGING:
        return YOU, "no coordinator will ever end it: you do, with an ABORT marker"
    if cause == STUCK:
        decided = (finding.coordinator_state or "").removeprefix("Prepare").upper() or "its outcome"
        return COORDINATOR, f"{coordinator}: {decided} is decided and its marker does not arrive; never abort it"
    if cause == "late":
        return COORDINATOR, f"{coordinator}; you can tell it to"
    if cause == "two_phase_commit":
        return OWNER, "its owner, who commits or aborts it (two-phase commit): no timeout ends it"
    if cause == "live":
        if until is None:
            return COORDINATOR, f"{coordinator}"
        return OWNER, f"its producer; the coordinator aborts it at {when(until)}"
    if cause == "young":
        again = "later" if until is None else f"at {when(until)}"
        return OWNER, f"its producer, if it still runs; it can be judged {again}"
    if cause == "ghost":
        return YOU, "its data is deleted: readers wait for its marker alone"
    missing = [premise.needs for premise in finding.premises if not premise.holds and premise.needs]
    return YOU, f"it could not be judged: {some(list(dict.fromkeys(missing)), 2) or 'what is missing for a verdict'}"


def _may_abort(finding: Finding) -> bool:
    """Whether the verdict advises an abort of what hangs: not where its marker is in another replica."""
    return not (finding.action or "").startswith("none")


def _command(finding: Finding, cause: str, reach: Reach) -> str | None:
    name = finding.transactional_id
    if cause == HANGING and not _may_abort(finding):
        return None
    if cause == HANGING:
        return reach.abort(finding.topic, finding.partition, finding.start_offset or 0)
    if cause in _TERMINATED and name is not None and (cause == "late" or finding.coordinator_state == "Ongoing"):
        return reach.force_terminate([name])
    if cause in (STUCK, "ghost", "unknown", "young") or name is None:
        return reach.find_hanging(finding.topic, finding.partition)
    return reach.describe(name)


def _evidence(finding: Finding) -> Iterator[str]:
    yield from finding.evidence
    yield from sentences(finding)
    if finding.impact is not None and finding.impact.retention == RETENTION_HELD:
        yield f"The tier lags: nothing of {finding.topic}-{finding.partition} beyond the last stable offset is copied."
    for premise in finding.premises:
        source = f" ({premise.source})" if premise.source else ""
        yield f"{'Holds' if premise.holds else 'Missing'} ({premise.name}): {premise.what}{source}"
    if finding.action is not None and "kafkawire " not in finding.action:  # those are the blocker's commands
        yield f"{finding.topic}-{finding.partition}: {finding.action}"


# What is no transaction ----------------------------------------------------------------------------------------------


def _of_unread(unread: Iterable[Unread], reach: Reach) -> Iterator[Blocker]:
    """Partitions that could not be read, by the reason."""
    grouped: dict[str, list[Unread]] = {}
    for one in unread:
        grouped.setdefault(one.reason, []).append(one)
    for why, members in grouped.items():
        leaderless = all(one.broker_id is None for one in members)
        waits = tuple(Wait(what=PARTITION, topic=one.topic, partition=one.partition) for one in members)
        if leaderless:
            who, action = BROKER, "a broker with an in-sync replica must come back: nobody reads or writes until then"
        else:
            who, action = YOU, "make it readable, and ask again"
        yield Blocker(
            cause=NO_LEADER if leaderless else UNREADABLE,
            attention=NO_LEADER if leaderless else None,
            on=f"no leader: {why}" if leaderless else why,
            who=who,
            action=action,
            waits=waits,
            command=reach.reading("txn doctor"),
            commands=(reach.reading("txn doctor"),),
            evidence=(why,),
            holds=False,
        )


def _of_damage(damage: Iterable[DamageRow]) -> Iterator[Blocker]:
    """Damaged places, by partition."""
    grouped: dict[tuple[str, int | None], list[DamageRow]] = {}
    for one in damage:
        if not one.harmless and one.topic is not None and one.topic != TRANSACTION_STATE:
            grouped.setdefault((one.topic, one.partition), []).append(one)
    for (topic, partition), members in grouped.items():
        first = members[0]
        more = f", and {len(members) - 1} more places" if len(members) > 1 else ""
        commands = tuple(dict.fromkeys(f"kafkawire dump {quoted(one.file)}" for one in members if one.file))
        yield Blocker(
            cause=DAMAGE,
            attention=DAMAGE,
            on=f"damage in {os.path.basename(first.file or '')} at byte {first.position}: {first.reason}{more}",
            who=YOU,
            action="consumers stop or fail there: restore the file from another replica",
            waits=() if partition is None else (Wait(what=PARTITION, topic=topic, partition=partition),),
            command=commands[0] if commands else None,
            commands=commands,
            evidence=tuple(f"{one.file}: at byte {one.position}: {one.detail or one.reason}" for one in members),
        )


def _of_tiers(violations: Iterable[Violation]) -> Iterator[Blocker]:
    """Segments that a tier has not got, by partition."""
    grouped: dict[tuple[str, int], list[Violation]] = {}
    for one in violations:
        if one.check in TIER_CHECKS and one.topic is not None and one.partition is not None:
            grouped.setdefault((one.topic, one.partition), []).append(one)
    for (topic, partition), members in grouped.items():
        offsets = [one.offset for one in members if one.offset is not None]
        yield Blocker(
            cause=TIER_LAG,
            attention=TIER_LAG,
            on=f"tiered storage: {members[0].what}",
            who=BROKER,
            action="the leader must copy its segments: local retention deletes nothing that is not copied",
            waits=(Wait(what=PARTITION, topic=topic, partition=partition, offset=min(offsets, default=None)),),
            evidence=tuple(f"{one.check}: {one.place}: {one.what}" for one in members),
        )


def _unexplained(group: GroupView, reach: Reach) -> Blocker:
    places = sorted(group.unexplained)
    command = None if group.own is None else reach.judging("why", *at(*group.own))
    return Blocker(
        cause=UNSTABLE,
        attention=UNSTABLE,
        on="an open transaction that could not be found (UNSTABLE_OFFSET_COMMIT)",
        who=YOU,
        action="find the transaction in the partition that keeps the group's offsets",
        waits=tuple(
            Wait(what=OFFSET, topic=topic, partition=partition, group=group.group) for topic, partition in places
        ),
        command=command,
        commands=() if command is None else (command,),
        evidence=group.gaps,
        holds=False,
    )
