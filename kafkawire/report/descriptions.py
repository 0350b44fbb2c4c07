"""What the report says of verdicts, reasons and rules: tables of words, and the few sentences that count."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from kafkawire.rows import Audit, Coverage, Finding, Violation
from kafkawire.transactions.checks import OF_FINDINGS
from kafkawire.transactions.completeness import not_read
from kafkawire.transactions.wording import count

#: See `severity`, the loudest first.
SEVERITIES = ("hanging", "stuck", "unknown", "watch", "fine")

#: Each severity's name in the tally, for one and for many.
SEVERITY_NAMES: Mapping[str, str] = {
    "hanging": "hanging",
    "stuck": "stuck",
    "unknown": "not certain",
    "watch": "to look at",
    "fine": "as they should be",
}


class Reason(msgspec.Struct, frozen=True):
    """A verdict's reason in words: a title, and what it means."""

    title: str
    meaning: str = ""


REASONS: Mapping[str, Reason] = {
    "no_transactional_id": Reason(
        "Nobody owns its producer id",
        "No coordinator knows this producer id, so none will ever write the marker that ends its transaction.",
    ),
    "transaction_ended": Reason(
        "Its transaction had ended before",
        "A batch came after its transaction had been committed or aborted. The coordinator is done with that "
        "transaction and writes no second marker.",
    ),
    "epoch_bumped": Reason(
        "Its producer has gone on to a later epoch",
        "The transactional id has a newer epoch. No marker will come for the data of the one before.",
    ),
    "partition_not_in_transaction": Reason(
        "The coordinator was never told of this partition",
        "The batch was written without adding the partition to the transaction, so the coordinator's marker will not "
        "come here.",
    ),
    "stuck_prepare": Reason(
        "Decided, but its marker does not arrive",
        "The coordinator has decided the outcome, and other partitions may have it already. An abort by hand would "
        "break the transaction apart: some of it committed, some of it lost.",
    ),
    "coverage_incomplete": Reason(
        "Not enough was read to be certain",
        "Something that was not read could turn this verdict around. Do not abort on this evidence.",
    ),
    "late": Reason(
        "Past its own timeout",
        "Its coordinator holds this transaction and should have ended it by now. The coordinator is late, not the "
        "partition.",
    ),
    "two_phase_commit": Reason(
        "Waits for its owner", "A two-phase commit never times out: whoever began it must commit or abort it."
    ),
    "live": Reason("In progress", "Its coordinator holds it, and its producer or its timeout will end it."),
    "young": Reason("Too young to say", "Its producer may still be about to register it."),
    "ghost": Reason(
        "Its data is deleted",
        "Only the partition's producer state remembers it: there is nothing to abort or to commit. Where readers wait "
        "behind it, a marker lets them go on.",
    ),
}

#: The rules that logs are held against, in one sentence each. A rule without a sentence is shown by its name.
CHECKS: Mapping[str, str] = {
    "sequence_contiguous": "A producer's sequence numbers follow each other without gap or step back.",
    "new_epoch_from_zero": "A producer's first batch of a new epoch has sequence number 0.",
    "duplicate_batch": "No batch is written twice.",
    "epoch_not_backwards": "A producer's epoch never goes back.",
    "marker_epoch": "A marker's epoch fits the epoch of the data that it ends.",
    "coordinator_epoch_monotonic": "The coordinator epoch of a producer's markers never goes back.",
    "marker_shape": "A marker is one control record, of the form that Kafka writes.",
    "marker_without_data": "A marker that ended nothing: for information, it is legal.",
    "mixed_batches": "While its transaction is open, a producer writes nothing outside of it.",
    "open_transaction": "Transactions that no marker has ended.",
    "transaction_unknown_to_coordinator": "Every open transaction is one that its coordinator holds.",
    "late_transaction": "No transaction is open for longer than its timeout allows.",
    "lso": "The last stable offset is where the earliest open transaction begins.",
    "txnindex_equals_log": "The index of aborted transactions says what the log says.",
    "snapshot_equals_replay": "Snapshots of producer state say what the log says.",
    "snapshot_ghost": "Snapshots remember no open transaction whose data is deleted.",
    "prepare_completed": "What was decided is carried out: every partition gets its marker.",
    "one_outcome": "All markers of a transaction agree with what its coordinator decided.",
    "legal_transition": "A transactional id goes from state to state as Kafka's coordinator does.",
    "transition_fields": "Times, partitions and timeouts fit from one state to the next.",
    "epoch_step": "A transactional id's epoch goes up in the steps that Kafka takes.",
    "previous_producer_id": "A new producer id names the one before it.",
    "producer_id_unique": "A producer id belongs to one transactional id, and somebody gave it out.",
    "id_in_its_partition": "A transactional id lies in the partition that its hash names.",
    "replicas_agree": "Replicas of a partition hold the same.",
}


def severity(finding: Finding) -> str:
    """How loud a finding is: one of `SEVERITIES`."""
    if finding.verdict != "not_hanging":
        return finding.verdict if finding.verdict in SEVERITIES else "unknown"
    if finding.reason == "stuck_prepare":
        return "stuck"
    return "watch" if finding.reason == "late" or (finding.reason == "ghost" and finding.blocked) else "fine"


def label(finding: Finding) -> str:
    """A finding in a word or two: its verdict, and where that is not_hanging what it is instead."""
    loud = severity(finding)
    if finding.verdict != "not_hanging":
        return with_spaces(finding.verdict)
    return loud if loud == "stuck" else with_spaces(finding.reason)


def by_severity(finding: Finding) -> tuple[int, int, int]:
    """Sorts findings: the loudest severity, then what holds back most, then the oldest first."""
    return SEVERITIES.index(severity(finding)), -waiting_offsets(finding), -(finding.age_ms or 0)


def reason_of(finding: Finding) -> Reason:
    """Its reason in words; one that has none yet by its name."""
    return REASONS.get(finding.reason) or Reason(with_spaces(finding.reason).capitalize())


def with_spaces(name: str) -> str:
    """`epoch_bumped` as `epoch bumped`."""
    return name.replace("_", " ")


def waiting_offsets(finding: Finding) -> int:
    """Offsets that readers of committed data wait for behind this transaction; 0 where it holds nobody back."""
    stable, high = finding.last_stable_offset, finding.high_watermark
    return high - stable if finding.blocked and stable is not None and high is not None else 0


def other_violations(audit: Audit) -> list[Violation]:
    """Rules that are broken, beside what the findings say already."""
    return [violation for violation in audit.violations if violation.check not in OF_FINDINGS]


def overall_severity(audit: Audit) -> str:
    """The severity of the whole page."""
    severities = set(map(severity, audit.findings))
    if "hanging" in severities:
        return "hanging"
    if "stuck" in severities or other_violations(audit):
        return "stuck"
    if "unknown" in severities or incomplete(audit):
        return "unknown"
    return "watch" if "watch" in severities else "fine"


def coverage(read: Coverage) -> str:
    """How much of `__transaction_state` a verdict rests on."""
    there, missing = len(read.transaction_state), len(read.transaction_state_missing)
    if not there:
        return "nothing"
    return f"{there} of {there + missing} partitions" if missing else f"all {count(there, 'partition')}"


def incomplete(audit: Audit) -> bool:
    """Whether something was not read."""
    return bool(not_read(audit))


def headline(audit: Audit) -> str:
    """The answer in one sentence. That none was found says nothing of what was not read."""
    severities = Counter(map(severity, audit.findings))
    missing = ", and not everything could be read" if incomplete(audit) else ""
    if severities["hanging"]:
        return count(severities["hanging"], "hanging transaction") + missing
    doubt = missing or (f", and {severities['unknown']} could not be judged" if severities["unknown"] else "")
    none = "No hanging transaction found" if doubt else "No hanging transaction"
    breaches = len({violation.check for violation in other_violations(audit)})
    for number, noun in ((severities["stuck"], "stuck one"), (breaches, "broken rule")):
        if number:
            return f"{none}, but {count(number, noun)}{doubt}"
    if severities["unknown"]:
        return f"{count(severities['unknown'], 'open transaction')} could not be judged"
    if missing:
        return f"{none}, but not everything could be read"
    return f"{none}, but {severities['watch']} to look at" if severities["watch"] else none


def summary(audit: Audit) -> list[str]:
    """What follows from the headline, in a few sentences."""
    if not audit.findings:
        return ["No transaction is open in what was read."]
    severities = Counter(map(severity, audit.findings))
    if not severities["hanging"] and not severities["stuck"]:
        one = len(audit.findings) == 1
        return [_held_back(audit.findings, "The open transaction holds" if one else "Open transactions hold")]
    sentences = []
    if severities["hanging"]:
        one = severities["hanging"] == 1
        hanging = (finding for finding in audit.findings if severity(finding) == "hanging")
        sentences.append(_held_back(hanging, "It holds" if one else "They hold"))
        what = "end it; its command is below" if one else "end them; each has its command below"
        sentences.append(f"Nothing but an abort by hand will {what}.")
    if severities["stuck"]:
        sentences.append("What is stuck must never be aborted: its outcome is decided.")
    return sentences


def _held_back(findings: Iterable[Finding], who_holds: str) -> str:
    held = {(f.cluster_id, f.topic, f.partition): waiting_offsets(f) for f in findings if f.blocked}
    if not held:
        return f"{who_holds} nobody back now."
    offsets = sum(held.values())
    by = f", by {count(offsets, 'offset')}" if offsets else ""
    return f"{who_holds} readers of committed data back in {count(len(held), 'partition')}{by}."


#: An action that names a command: alone, or behind the reason for it.
_COMMAND = re.compile(r"(?:(?P<why>[^:]*): )??(?P<command>(?P<tool>kafkawire|kafka-transactions\.sh) .*)", re.DOTALL)


def what_to_do(finding: Finding) -> tuple[str | None, str]:
    """The command to run, if there is one, and a sentence on it or why there is none."""
    action = finding.action or "none"
    if action.startswith("none"):
        return None, _sentence("Nothing" + action.removeprefix("none"))
    named = _COMMAND.fullmatch(action)
    if named is None:
        return None, _sentence(action)
    said = [_sentence(named["why"])] if named["why"] else []
    if "HOST:PORT" in action:
        said.append("Put a broker's address for HOST:PORT.")
    if named["tool"] == "kafkawire":
        said.append("It looks once more before it acts, aborts in this partition alone, and looks again.")
    return named["command"], " ".join(said)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")
