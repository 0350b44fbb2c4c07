"""Severities of findings, and the report's texts: descriptions of reasons and checks, headline, summary, advice."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from kafkawire.rows import Audit, Coverage, Finding, Omitted, Violation
from kafkawire.transactions.checks.check_names import OF_FINDINGS
from kafkawire.transactions.formatting import count
from kafkawire.transactions.log.batch_rules import RULES
from kafkawire.transactions.verdict.completeness import not_read

#: Severities, the most severe first. They are classes of the style sheet, too.
SEVERITIES = ("hanging", "stuck", "blocked", "unknown", "watch", "fine")

#: The names of severities beside their numbers.
SEVERITY_NAMES: Mapping[str, str] = {
    "hanging": "hanging",
    "stuck": "stuck",
    "blocked": "blocked, not hanging (yet)",
    "unknown": "not certain",
    "watch": "to look at",
    "fine": "as they should be",
}


class Reason(msgspec.Struct, frozen=True):
    """The description of a reason: a title, and what it means."""

    title: str
    meaning: str = ""


REASONS: Mapping[str, Reason] = {
    "no_transactional_id": Reason(
        "Its producer id has no owner",
        "No coordinator knows this producer id, so none will ever write the marker that ends its transaction.",
    ),
    "transaction_ended": Reason(
        "Its transaction has already ended",
        "A batch was written after its transaction was committed or aborted. The coordinator has completed that "
        "transaction and writes no second marker.",
    ),
    "epoch_bumped": Reason(
        "Its producer epoch is outdated",
        "The transactional id has a newer epoch. No marker will be written for data of an older one.",
    ),
    "partition_not_in_transaction": Reason(
        "The partition is not in the transaction",
        "The batch was written without adding the partition to the transaction, so the coordinator will write no "
        "marker here.",
    ),
    "stuck_prepare": Reason(
        "Decided, but its marker is not written",
        "The coordinator has decided the outcome, and other partitions may have its marker already. A manual abort "
        "would break the transaction's atomicity: a part of it committed, a part of it lost.",
    ),
    "coverage_incomplete": Reason(
        "Not enough was read to be certain",
        "Data that was not read could reverse this verdict. Do not abort on this evidence.",
    ),
    "late": Reason(
        "Past its own timeout",
        "Its coordinator holds this transaction and should have ended it by now. The coordinator is late, not the "
        "partition.",
    ),
    "two_phase_commit": Reason(
        "Two-phase commit", "A two-phase commit never times out. The application that began it must commit or abort it."
    ),
    "live": Reason("In progress", "Its coordinator holds it, and its producer or its timeout will end it."),
    "young": Reason("Too young to judge", "Its producer may still be about to register it."),
    "ghost": Reason(
        "Its data is deleted",
        "It remains in the partition's producer state only: there is nothing to abort or to commit. If readers wait "
        "behind it, a marker lets them continue.",
    ),
}

#: The rules that checks test, one sentence each, without those of share groups.
CHECKS: Mapping[str, str] = {
    **{rule.name: rule.sentence for rule in RULES},
    "marker_epoch": "A marker's epoch fits the epoch of the data that it ends.",
    "open_transaction": "Transactions that no marker has ended.",
    "transaction_unknown_to_coordinator": "Every open transaction is one that its coordinator holds.",
    "late_transaction": "No transaction is open for longer than its timeout allows.",
    "lso": "The last stable offset is where the earliest open transaction begins.",
    "txnindex_equals_log": "The index of aborted transactions agrees with the log.",
    "snapshot_equals_replay": "Snapshots of producer state agree with the log.",
    "snapshot_ghost": "Snapshots contain no open transaction whose data is deleted.",
    "prepare_completed": "Every decision is carried out: every partition gets its marker.",
    "one_outcome": "All markers of a transaction agree with what its coordinator decided.",
    "legal_transition": "A transactional id goes from state to state as Kafka's coordinator does.",
    "transition_fields": "Times, partitions and timeouts fit from one state to the next.",
    "epoch_step": "A transactional id's epoch goes up in the steps that Kafka takes.",
    "previous_producer_id": "The record of a new producer id names the previous one.",
    "producer_id_unique": "A producer id belongs to one transactional id and was allocated by the cluster.",
    "id_in_its_partition": "A transactional id is in the partition that its hash selects.",
    "replicas_agree": "Replicas of a partition hold the same.",
    "tier_copy_finished": "Every copy of a segment to a tier that was started was finished.",
    "tier_object_known": "The metadata of the tier names every object.",
    "tier_object_present": "Every segment whose copy was finished has its objects.",
    "tier_covers_log": "The tier has every offset from the log start to the local log start.",
}


def check_sentence(check: str) -> str:
    """The rule that a check tests. A check without a sentence is shown by its name."""
    if check.startswith("share_"):
        # They are in a module that needs NumPy, which reports of live clusters do not load.
        from kafkawire.offsets.share_rules import RULES as SHARE_RULES

        return next((rule.sentence for rule in SHARE_RULES if rule.name == check), with_spaces(check))
    return CHECKS.get(check, with_spaces(check))


def severity(finding: Finding | Omitted) -> str:
    """The severity of a finding, or of findings that are not listed: one of `SEVERITIES`."""
    if isinstance(finding, Finding) and finding.attention == "blocked":
        return "blocked"
    if finding.verdict != "not_hanging":
        return finding.verdict if finding.verdict in SEVERITIES else "unknown"
    if finding.reason == "stuck_prepare":
        return "stuck"
    return "watch" if finding.reason == "late" or (finding.reason == "ghost" and finding.blocked) else "fine"


def severities_of(audit: Audit) -> Counter[str]:
    """The number of findings of each severity, those that are not listed included."""
    found = Counter(map(severity, audit.findings))
    for more in audit.omitted:
        if more.rows == "finding":
            found[severity(more)] += more.count
    return found


def label(finding: Finding) -> str:
    """A short name of a finding: its verdict, or for not_hanging its reason."""
    level = severity(finding)
    if level == "blocked":
        return f"blocked, {with_spaces(finding.verdict if finding.verdict == 'unknown' else finding.reason)}"
    if finding.verdict != "not_hanging":
        return with_spaces(finding.verdict)
    return level if level == "stuck" else with_spaces(finding.reason)


def by_severity(finding: Finding) -> tuple[int, int, int]:
    """The sort key of findings: the most severe first, then the most waiting offsets, then the oldest."""
    return SEVERITIES.index(severity(finding)), -waiting_offsets(finding), -(finding.age_ms or 0)


def reason_of(finding: Finding) -> Reason:
    """The description of a finding's reason. One without a description is shown by its name."""
    return REASONS.get(finding.reason) or Reason(with_spaces(finding.reason).capitalize())


def with_spaces(name: str) -> str:
    """`epoch_bumped` as `epoch bumped`."""
    return name.replace("_", " ")


def waiting_offsets(finding: Finding) -> int:
    """The number of offsets after this transaction that read_committed consumers wait for."""
    stable, high = finding.last_stable_offset, finding.high_watermark
    return high - stable if finding.blocked and stable is not None and high is not None else 0


def other_violations(audit: Audit) -> list[Violation]:
    """The violations that are not reported as findings."""
    return [violation for violation in audit.violations if violation.check not in OF_FINDINGS]


def overall_severity(audit: Audit) -> str:
    """The severity of the whole audit."""
    severities = severities_of(audit)
    if "hanging" in severities:
        return "hanging"
    if "stuck" in severities or other_violations(audit):
        return "stuck"
    if "blocked" in severities:
        return "blocked"
    if "unknown" in severities or incomplete(audit):
        return "unknown"
    return "watch" if "watch" in severities else "fine"


def coverage(read: Coverage) -> str:
    """How much of `__transaction_state` was read, as text."""
    there, missing = len(read.transaction_state), len(read.transaction_state_missing)
    if not there:
        return "none"
    return f"{there} of {there + missing} partitions" if missing else f"all {count(there, 'partition')}"


def coordinator_state(finding: Finding, read: Coverage) -> str:
    """The state of the transaction in its coordinator's log, or why there is none."""
    if finding.coordinator_state is not None:
        return finding.coordinator_state
    if read.complete:
        return "no record"
    return "no record in the partitions that were read" if read.transaction_state else "unknown: its log was not read"


def incomplete(audit: Audit) -> bool:
    """Whether part of the data was not read."""
    return bool(not_read(audit))


def headline(audit: Audit) -> str:
    """The result in one sentence, with *found* where data that was not read may contain hanging transactions."""
    severities = severities_of(audit)
    missing = ", and not everything could be read" if incomplete(audit) else ""
    if severities["hanging"]:
        stuck = f", {severities['stuck']} stuck" if severities["stuck"] else ""
        return count(severities["hanging"], "hanging transaction") + stuck + missing
    unjudged = sum(severity(finding) == "blocked" and finding.verdict == "unknown" for finding in audit.findings)
    unjudged += severities["unknown"]
    doubt = missing or (f", and {unjudged} could not be judged" if unjudged else "")
    none = "No hanging transaction found" if doubt else "No hanging transaction"
    breaches = len({violation.check for violation in other_violations(audit)})
    blocked = severities["blocked"]
    for number, noun in ((severities["stuck"], "stuck one"), (breaches, "broken rule"), (blocked, "blocked one")):
        if number:
            return f"{none}, but {count(number, noun)}{doubt}"
    if severities["unknown"]:
        return f"{count(severities['unknown'], 'open transaction')} could not be judged"
    if missing:
        return f"{none}, but not everything could be read"
    return f"{none}, but {severities['watch']} to look at" if severities["watch"] else none


def summary(audit: Audit) -> list[str]:
    """The sentences below the headline."""
    if not audit.findings:
        return ["No transaction is open in what was read."]
    severities = severities_of(audit)
    if not severities["hanging"] and not severities["stuck"]:
        one = severities.total() == 1
        return [_held_back(audit.findings, "The open transaction holds" if one else "Open transactions hold")]
    sentences = []
    if severities["hanging"]:
        one = severities["hanging"] == 1
        hanging = (finding for finding in audit.findings if severity(finding) == "hanging")
        sentences.append(_held_back(hanging, "It holds" if one else "They hold"))
        what = "end it; its command is below" if one else "end them; each has its command below"
        sentences.append(f"Only a manual abort will {what}.")
    if severities["stuck"]:
        sentences.append("A stuck transaction must never be aborted: its outcome is decided.")
    return sentences


def _held_back(findings: Iterable[Finding], who_holds: str) -> str:
    held = {(f.cluster_id, f.topic, f.partition): waiting_offsets(f) for f in findings if f.blocked}
    if not held:
        return f"{who_holds} no readers back now."
    offsets = sum(held.values())
    by = f", by {count(offsets, 'offset')}" if offsets else ""
    return f"{who_holds} readers of committed data back in {count(len(held), 'partition')}{by}."


#: An action with a command: the command alone, or after its reason.
_COMMAND = re.compile(r"(?:(?P<why>[^:]*): )??(?P<command>(?P<tool>kafkawire|kafka-transactions\.sh) .*)", re.DOTALL)


def what_to_do(finding: Finding) -> tuple[str | None, str]:
    """The command to run, or None, and advice: why to run it, or why there is none."""
    action = finding.action or "none"
    if action.startswith("none"):
        return None, _sentence("Nothing" + action.removeprefix("none"))
    named = _COMMAND.fullmatch(action)
    if named is None:
        return None, _sentence(action)
    return named["command"], _sentence(named["why"]) if named["why"] else ""


def command_notes(commands: Iterable[str]) -> Iterator[str]:
    """Sentences that apply to all commands in a report, and are shown once."""
    given = list(commands)
    if any("HOST:PORT" in one for one in given):
        yield "Replace HOST:PORT in commands by a broker's address."
    if any(one.startswith("kafkawire txn abort ") for one in given):
        yield "An abort judges again before it acts, aborts in its partition only, and verifies the result."


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")
