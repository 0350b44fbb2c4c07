"""Known lines of clients' and brokers' logs: a line -> its meaning, the subject that it is about, and commands to run.

A table has each known word with the patterns by which it is recognised. A group, an id, a producer or a partition that
the line names becomes the subject of `kafkawire why`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from kafkawire.rows import Subject
from kafkawire.rows.base import Row
from kafkawire.transactions.commands import quoted

#: The placeholders in a command for what the line does not name.
GROUP, ID, TOPIC, PARTITION, PATH = "GROUP", "ID", "TOPIC", "0", "LOG_DIR"


class Word(msgspec.Struct, frozen=True, kw_only=True):
    """A word.

    Attributes:
        name: the heading in docs/why.md. `patterns`: regular expressions, without regard to case.
        means: what it says, a sentence or two.
        asks: what the subject should be: group, transactional_id, producer_id or topic; None: no subject answers it.
        run: other commands that answer it, after `kafkawire`; `{reach}`, `{path}`, `{place}`, `{group}` and
            `{producer}` are filled in.
        history: whether the story of the subject answers it.
    """

    name: str
    patterns: tuple[str, ...]
    means: str
    asks: str | None = None
    run: tuple[str, ...] = ()
    history: bool = False


WORDS = (
    Word(
        name="UNSTABLE_OFFSET_COMMIT",
        patterns=("UNSTABLE_OFFSET_COMMIT", "UnstableOffsetCommit", "unstable offsets that need to be cleared"),
        means="The group's offset is in a transaction that is open: a consumer cannot fetch it, and does not start, "
        "until the transaction ends.",
        asks="group",
    ),
    Word(
        name="Out of order sequence number",
        patterns=("out of order sequence", "OutOfOrderSequence", "OUT_OF_ORDER_SEQUENCE_NUMBER"),
        means="The broker got a batch whose sequence number does not follow the last one of its producer: batches "
        "between them never arrived, or the broker lost them.",
        asks="producer_id",
        run=("dump {path}/{place} --producer-id {producer}",),
    ),
    Word(
        name="ProducerFenced",
        patterns=("ProducerFenced", "PRODUCER_FENCED", "newer producer with the same transactionalId",
                  "INVALID_PRODUCER_EPOCH", "InvalidProducerEpoch", "old epoch"),
        means="Another producer has taken the transactional id over, or its coordinator has ended its transaction and "
        "raised the epoch: this one can write no more.",
        asks="transactional_id",
        history=True,
    ),
    Word(
        name="InvalidTxnState",
        patterns=("InvalidTxnState", "INVALID_TXN_STATE", "transactional operation in an invalid state"),
        means="The producer asked for what the state of its id does not permit: usually the coordinator has aborted "
        "its transaction at the timeout.",
        asks="transactional_id",
        history=True,
    ),
    Word(
        name="CONCURRENT_TRANSACTIONS",
        patterns=("CONCURRENT_TRANSACTIONS", "ConcurrentTransactions", "ongoing transaction for the same"),
        means="The id's last transaction is still being ended: its markers have not been written everywhere.",
        asks="transactional_id",
    ),
    Word(
        name="InitProducerId timeout",
        patterns=("awaiting InitProducerId", "awaiting EndTxn", "initTransactions"),
        means="The coordinator could not finish the id's last transaction in time: a partition of it has no leader, or "
        "refuses its marker.",
        asks="transactional_id",
    ),
    Word(
        name="INVALID_PRODUCER_ID_MAPPING",
        patterns=("INVALID_PRODUCER_ID_MAPPING", "InvalidPidMapping", "UNKNOWN_PRODUCER_ID", "UnknownProducerId"),
        means="The coordinator or the partition has forgotten the producer: its id expired "
        "(transactional.id.expiration.ms, producer.id.expiration.ms), or its records were deleted.",
        asks="transactional_id",
        history=True,
    ),
    Word(
        name="TRANSACTION_COORDINATOR_FENCED",
        patterns=("TRANSACTION_COORDINATOR_FENCED", "TransactionCoordinatorFenced"),
        means="A partition has seen a marker of a later coordinator than the one that writes now, and refuses its "
        "marker: the transaction is stuck.",
        asks="topic",
        run=("txn find-hanging --bootstrap-server {reach}",),
    ),
    Word(
        name="Hanging transaction",
        patterns=("hanging transaction", "PartitionsWithLateTransactionsCount", "last stable offset", r"\bLSO\b",
                  "late transaction"),
        means="An open transaction holds the last stable offset: read_committed consumers get nothing beyond it.",
        asks="topic",
        run=("txn find-hanging --bootstrap-server {reach}",),
    ),
    Word(
        name="did not match the current broker epoch",
        patterns=("did not match the current broker epoch", "but that broker was not registered",
                  r"Unable to replay \w*Record", "Error loading metadata log record", "Error applying delta"),
        means="A record of the metadata log cannot be replayed: controllers and brokers stop there, at every start.",
        run=("why {path} --topic __cluster_metadata",),
    ),
    Word(
        name="uncleanable",
        patterns=("uncleanable", "LogCleaningAborted", "LogCleaner", "max-dirty-percent", "cleaner thread"),
        means="The cleaner does not compact the partition: a segment is damaged, or an open transaction holds it back; "
        "then it is not marked as uncleanable, and grows all the same.",
        asks="topic",
        run=("dump {path}/{place} --stats",),
    ),
    Word(
        name="CorruptIndexException",
        patterns=("CorruptIndex", "corrupted index", "corrupt index", "index file .* non-zero size"),
        means="An index does not fit its segment, usually after an unclean stop. A broker that starts after one makes "
        "it anew from the segment; nothing of the log is lost by it.",
        run=("dump {path}/{place} --index-sanity-check",),
    ),
    Word(
        name="CorruptRecordException",
        patterns=("CorruptRecord", "CORRUPT_MESSAGE", "Record is corrupt", "failed its CRC", "crc.*mismatch"),
        means="A batch does not have the checksum that it was written with: bytes on the disk, or on the way, changed.",
        asks="topic",
        run=("audit {path}",),
    ),
    Word(
        name="-stray",
        patterns=(r"-stray\b", r"\bstray\b", r"-future\b", r"-delete\b"),
        means="A folder of a partition that its broker does not use: -stray has no place in the cluster's metadata, "
        "-future is a copy that moves to this disk, -delete is about to be deleted.",
        run=("dump {path} --stats --wide",),
    ),
    Word(
        name="LEADER_NOT_AVAILABLE",
        patterns=("LEADER_NOT_AVAILABLE", "NOT_LEADER_OR_FOLLOWER", "NotLeaderOrFollower", "NotLeaderForPartition",
                  "LeaderNotAvailable", "OfflinePartitions", "no leader"),
        means="No broker leads the partition now, or the client asked one that does not.",
        asks="topic",
    ),
    Word(
        name="OFFSET_OUT_OF_RANGE",
        patterns=("OFFSET_OUT_OF_RANGE", "OffsetOutOfRange", "is out of range for partition"),
        means="The group's offset is no longer in the log, or not yet: retention deleted what is there, or the log was "
        "truncated.",
        asks="group",
        run=("lag --bootstrap-server {reach} --group {group}",),
    ),
    Word(
        name="COORDINATOR_LOAD_IN_PROGRESS",
        patterns=("COORDINATOR_LOAD_IN_PROGRESS", "CoordinatorLoadInProgress", "NOT_COORDINATOR",
                  "COORDINATOR_NOT_AVAILABLE"),
        means="The coordinator is reading its partition after an election, or there is none: a long load is a "
        "partition that is not compacted.",
        run=("txn doctor --bootstrap-server {reach}", "why --bootstrap-server {reach} --topic __consumer_offsets"),
    ),
)  # fmt: skip


class Pasted(Row, frozen=True, kw_only=True):
    """What a pasted line means.

    Attributes:
        word: the heading in docs/why.md. `means`: sentences.
        subject: what the line is about, as far as it says so.
        found: what else follows from the numbers in the line, a sentence each.
        commands: what to run; words in capitals are to be replaced.
    """

    kind: str = "words"
    word: str
    means: str
    subject: Subject
    found: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()


def recognised(line: str, reach: str = "HOST:PORT") -> Pasted | None:
    """What a line means; None where no word of the table is in it. `reach`: the address for commands."""
    word = next((one for one in WORDS if any(re.search(p, line, re.IGNORECASE) for p in one.patterns)), None)
    if word is None:
        return None
    subject = subject_in(line)
    topic, numbers = subject.topic or TOPIC, subject.partitions
    filled = {
        "reach": reach,
        "path": PATH,
        "place": quoted(f"{topic}-{numbers[0] if numbers else PARTITION}"),
        "group": quoted(subject.group or GROUP),
        "producer": str(0 if subject.producer_id is None else subject.producer_id),
    }
    commands = [] if word.asks is None else [f"kafkawire {_why(word, subject, reach)}"]
    if word.history and "--producer-id" not in commands[0]:  # stories are of ids and groups
        commands.append(f"{commands[0]} --history")
    commands += [f"kafkawire {text.format(**filled)}" for text in word.run]
    return Pasted(
        word=word.name, means=word.means, subject=subject, found=tuple(_sequences(line)), commands=tuple(commands)
    )


def asked(pasted: Pasted) -> Subject | None:
    """The subject of `kafkawire why` that answers a line; None where the line does not name it."""
    word = next(one for one in WORDS if one.name == pasted.word)
    found = pasted.subject
    for name in dict.fromkeys((word.asks, "transactional_id", "producer_id", "group", "topic")):
        value = None if name is None else getattr(found, name)
        if value is not None and name is not None:
            only = Subject(**{name: value})
            return replace(only, partitions=found.partitions) if name == "topic" else only
    return None


def _why(word: Word, subject: Subject, reach: str) -> str:
    parts = [f"why --bootstrap-server {reach}"]
    by_producer = word.asks == "transactional_id" and subject.transactional_id is None
    if word.asks == "group":
        parts.append(f"--group {quoted(subject.group or GROUP)}")
    elif subject.producer_id is not None and (word.asks == "producer_id" or by_producer):
        parts.append(f"--producer-id {subject.producer_id}")
    elif word.asks == "topic":
        parts.append(f"--topic {quoted(subject.topic or TOPIC)}")
        parts += [f"--partition {number}" for number in subject.partitions]
    else:
        parts.append(f"--transactional-id {quoted(subject.transactional_id or ID)}")
    return " ".join(parts)


# What a line says -----------------------------------------------------------------------------------------------------

_NAME = r"[^\s\],;:()\"']+"
_GROUP_PATTERNS = (rf"groupId=({_NAME})", rf"group\.id[=:]\s*({_NAME})", r"\bgroup '([^']+)'", rf"\bgroup ({_NAME})")
_ID_PATTERNS = (
    rf"transactional[ ._]?id[=:]\s*'?({_NAME})", r"transactional[ ._]?id '([^']+)'",
    rf"transactional id ({_NAME})", rf"with (?:the )?transactionalId ({_NAME})",
)  # fmt: skip
_PRODUCER_PATTERNS = (r"producer\s?id[=: ]+(\d+)", r"for producer (\d+)", r"\bproducer (\d+)\b")
#: A name may end as a partition does (`orders-1017-0`): nothing of a name follows its number.
_PARTITION = (
    rf"(?:partition|topic-partition|for|in)[ =:]+'?({_NAME}?)-(\d+)(?:-(?:stray|future|delete))?"
    r"(?![A-Za-z0-9_-]|\.[A-Za-z0-9_-])"
)
_FOLDER = r"([A-Za-z0-9._-]+?)-(\d+)(?:\.[0-9a-f]{32})?-(?:stray|future|delete)\b"
_SEQUENCE = r"(\d+) \(incoming seq(?:\.|uence)? number\), (\d+) \(current end sequence number\)"
#: Words that are no names, after "group" or an id.
_NO_NAME = frozenset({"id", "coordinator", "is", "has", "metadata", "was", "for", "the", "of", "with", "and"})


def subject_in(line: str) -> Subject:
    """The group, id, producer and partition that a line names."""
    producer = _first(_PRODUCER_PATTERNS, line)
    place = re.search(_FOLDER, line) or re.search(_PARTITION, line, re.IGNORECASE)
    return Subject(
        group=_first(_GROUP_PATTERNS, line),
        topic=None if place is None else place.group(1),
        partitions=() if place is None else (int(place.group(2)[:10]),),
        transactional_id=_first(_ID_PATTERNS, line),
        producer_id=None if producer is None else int(producer[:18]),
    )


def _first(patterns: Sequence[str], line: str) -> str | None:
    for pattern in patterns:
        for match in re.finditer(pattern, line, re.IGNORECASE):
            if match.group(1).lower() not in _NO_NAME:
                return match.group(1)
    return None


def _sequences(line: str) -> list[str]:
    """The sequence numbers that are missing, by the sentence of `OutOfOrderSequenceException`."""
    match = re.search(_SEQUENCE, line, re.IGNORECASE)
    if match is None:
        return []
    incoming, last = int(match.group(1)), int(match.group(2))
    if incoming > last + 1:
        first, end = last + 1, incoming - 1
        which = f"sequence number {first}" if first == end else f"sequence numbers {first} to {end}"
        return [f"The partition never got {end - first + 1} records, {which}: {last} is its last, {incoming} came."]
    if incoming <= last:
        return [f"Sequence number {incoming} came again, or from another producer: {last} is the partition's last."]
    return []
