"""The rules of share groups on copies of log directories: what an audit answers beside the rules of transactions."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from kafkawire import rows
from kafkawire.logdir import LogDirectory
from kafkawire.offsets.copied_shares import explained_shares, share_group_names
from kafkawire.offsets.group_records import GroupLog
from kafkawire.offsets.leading_replica import LeadingReplicas
from kafkawire.offsets.share_copies import STATE_TOPIC, TopicNames, begins_at_zero, state_records
from kafkawire.offsets.share_rules import RULES, STANDING_RULES, STEP_RULES
from kafkawire.offsets.share_rules.rule import DAMAGED, ShareStep
from kafkawire.offsets.share_settings import share_settings
from kafkawire.share_groups.fold import ShareFold, SharePartition, ShareRecord
from kafkawire.transactions.answers import Placed, Tally
from kafkawire.transactions.auditing.local_audit import cluster_ids
from kafkawire.transactions.checks.answer_rows import summed, violations
from kafkawire.transactions.parts.replica_files import place_of


def with_shares(audit: rows.Audit, directory: LogDirectory) -> rows.Audit:
    """An audit with the answers of the rules of share groups; the same one where no copy of their state is here.

    Args:
        audit: of the same log directories.
    """
    if len(set(cluster_ids(directory).values())) > 1:
        return audit  # names of groups are each cluster's own
    answers = share_answers(LeadingReplicas(directory))
    if not answers:
        return audit
    found = summed(answers)
    return replace(
        audit,
        answers=(*audit.answers, *found),
        violations=(*audit.violations, *violations(answers)),
        read=replace(audit.read, checks=(*audit.read.checks, *(one.check for one in found))),
    )


def share_answers(replicas: LeadingReplicas) -> list[Placed]:
    """The answers of all rules, by partition of the state; empty where none of it is here.

    Args:
        replicas: of the log directories of one cluster.
    """
    answers: list[Placed] = []
    names = TopicNames.of(replicas)
    tallies: dict[int, dict[str, Tally]] = {}
    for number in replicas.numbers(STATE_TOPIC):
        leading = replicas.of(STATE_TOPIC, number)
        if leading is None:
            continue
        tallies[number] = {rule.name: Tally(rule.name) for rule in RULES}
        try:
            log = GroupLog(leading.partition)
            steps(replicas, names, state_records(log, None), tallies[number], from_start=begins_at_zero(log))
            problems = [*log.problems]
        except OSError as error:
            problems = [f"{leading.partition.path}: {error.strerror or error}"]
        if problems:
            for rule in STEP_RULES:
                tallies[number][rule.name].lack(DAMAGED)
    for group in share_group_names(replicas)[0] if tallies else ():
        for share in explained_shares(replicas, group)[0]:
            for standing in STANDING_RULES:
                standing.judge(share, tallies[share.source.number][standing.name])
    for number, found in tallies.items():
        leading = replicas.of(STATE_TOPIC, number)
        if leading is not None:
            place, path = place_of(leading.partition), leading.partition.path
            answers += [Placed(place, tally.answer(), path) for tally in found.values()]
    return answers


def steps(
    replicas: LeadingReplicas,
    names: TopicNames,
    records: Iterable[ShareRecord],
    tallies: dict[str, Tally],
    *,
    from_start: bool,
) -> None:
    """Judges each record of a partition of the state."""
    fold = ShareFold(from_start=from_start)
    limits: dict[str, int | None] = {}
    for record in records:
        group = record.key.group
        if group not in limits:
            settings = share_settings(replicas.metadata, group)
            limits[group] = None if settings.limit_changed else settings.limit
        judge(ShareStep(fold.take(record), _name(record.key, names), limits[group]), tallies)


def judge(step: ShareStep, tallies: dict[str, Tally]) -> None:
    """Judges a record by all rules of records."""
    for rule in STEP_RULES:
        rule.judge(step, tallies[rule.name])


def _name(key: SharePartition, names: TopicNames) -> str:
    return f"group {key.group!r} in {names.name(key.topic_id) or key.topic_id}-{key.partition}"
