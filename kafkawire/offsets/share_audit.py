"""The rules of share groups on copies of log directories: the answers that an audit has beside those of
transactions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from kafkawire import rows
from kafkawire.logdir import LogDirectory, LogFile
from kafkawire.offsets.copied_shares import explained_shares, groups_in
from kafkawire.offsets.group_records import GroupLog
from kafkawire.offsets.leading_replica import LeadingReplicas
from kafkawire.offsets.share_copies import STATE_TOPIC, begins_at_zero, state_records
from kafkawire.offsets.share_explain import ShareExplained
from kafkawire.offsets.share_rules import RULES, STANDING_RULES, STEP_RULES
from kafkawire.offsets.share_rules.share_rule import DAMAGED, ShareStep
from kafkawire.offsets.share_settings import share_settings
from kafkawire.share_groups.fold import ShareFold, SharePartition, ShareRecord
from kafkawire.transactions.answers import Placed, Tally
from kafkawire.transactions.auditing.local_audit import cluster_ids
from kafkawire.transactions.checks.answer_rows import summed, violations
from kafkawire.transactions.facts import Place
from kafkawire.transactions.parts.replica_files import place_of


def with_shares(audit: rows.Audit, directory: LogDirectory) -> rows.Audit:
    """An audit with the answers of the rules of share groups; the same one where no copy of their state is here.
    `audit`: of the same log directories."""
    return with_answers(audit, [one for _, part in clusters(directory) for one in share_answers(LeadingReplicas(part))])


def with_answers(audit: rows.Audit, answers: Sequence[Placed]) -> rows.Audit:
    """An audit with the answers of the rules of share groups; the same one where there is none."""
    if not answers:
        return audit
    found = summed(answers)
    return replace(
        audit,
        answers=(*audit.answers, *found),
        violations=(*audit.violations, *violations(answers)),
        read=replace(audit.read, checks=(*audit.read.checks, *(one.check for one in found))),
    )


def clusters(directory: LogDirectory) -> list[tuple[str | None, LogDirectory]]:
    """The log directories of each cluster, with its id: names of groups are each cluster's own. Of several, a directory
    without an id is alone, with its path in place of the id."""
    ids = cluster_ids(directory)
    if len({*ids.values()}) < 2:
        return [(None, directory)]
    parts: dict[str, list[LogFile]] = {}
    for file in directory.files:
        parts.setdefault(ids.get(file.root, file.root), []).append(file)
    given = [one.root for one in directory.brokers if directory.is_whole(one)]
    return [(name, LogDirectory(files, given=given)) for name, files in parts.items()]


def share_answers(replicas: LeadingReplicas) -> list[Placed]:
    """The answers of all rules, by partition of the state; empty where none of it is here. `replicas`: of the log
    directories of one cluster."""
    return [one for number in replicas.numbers(STATE_TOPIC) for one in partition_answers(replicas, number)]


def partition_answers(replicas: LeadingReplicas, number: int) -> list[Placed]:
    """The answers of all rules by one partition of the state: not checkable where it is not here, or cannot be read."""
    leading = replicas.of(STATE_TOPIC, number)
    if leading is None:
        place, why = Place("", STATE_TOPIC, number), f"{STATE_TOPIC}-{number} is not there any more"
        return [Placed.lacking(place, rule.name, why) for rule in RULES]
    path = leading.partition.path
    tallies = {rule.name: Tally(rule.name) for rule in RULES}
    groups: list[str] = []
    try:
        log = GroupLog(leading.partition)
        steps(replicas, state_records(log, None), tallies, from_start=begins_at_zero(log))
        groups = groups_in(log)
        for rule in STEP_RULES if log.problems else ():
            tallies[rule.name].lack(DAMAGED)
    except OSError as error:
        for tally in tallies.values():
            tally.lack(f"{path}: {error.strerror or error}")
    for group in groups:
        judge_standing(explained_shares(replicas, group, number=number)[0], tallies)
    place = place_of(leading.partition)
    return [Placed(place, tally.answer(), path) for tally in tallies.values()]


def judge_standing(shares: Iterable[ShareExplained], tallies: dict[str, Tally]) -> None:
    """Judges share partitions by all rules of these."""
    for share in shares:
        for standing in STANDING_RULES:
            standing.judge(share, tallies[standing.name])


def steps(
    replicas: LeadingReplicas,
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
        judge(ShareStep(fold.take(record), _name(record.key, replicas), limits[group]), tallies)


def judge(step: ShareStep, tallies: dict[str, Tally]) -> None:
    """Judges a record by all rules of records."""
    for rule in STEP_RULES:
        rule.judge(step, tallies[rule.name])


def _name(key: SharePartition, replicas: LeadingReplicas) -> str:
    return f"group {key.group!r} in {replicas.name_of(key.topic_id) or key.topic_id}-{key.partition}"
