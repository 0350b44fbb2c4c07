"""Lines of logs as people paste them -> their meaning, and the group, id or partition that they are about."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.transactions.blocking.pasted_words import WORDS, asked, recognised, subject_in
from tests.docs.guide import ROOT, commands, parse

LINES = {
    "UNSTABLE_OFFSET_COMMIT": (
        "[Consumer clientId=c-1, groupId=shipments] The following partitions still have unstable offsets which are not "
        "cleared on the broker side: UNSTABLE_OFFSET_COMMIT",
        "kafkawire why --bootstrap-server HOST:PORT --group shipments",
    ),
    "Out of order sequence number": (
        "org.apache.kafka.common.errors.OutOfOrderSequenceException: Out of order sequence number for producer 29003 "
        "at offset 1187 in partition orders-3: 158 (incoming seq. number), 155 (current end sequence number)",
        "kafkawire why --bootstrap-server HOST:PORT --producer-id 29003",
    ),
    "ProducerFenced": (
        "[Producer clientId=p, transactionalId=orders-service] ProducerFencedException: There is a newer producer with "
        "the same transactionalId which fences the current one.",
        "kafkawire why --bootstrap-server HOST:PORT --transactional-id orders-service",
    ),
    "InvalidTxnState": (
        "InvalidTxnStateException: The producer attempted a transactional operation in an invalid state.",
        "kafkawire why --bootstrap-server HOST:PORT --transactional-id ID",
    ),
    "CONCURRENT_TRANSACTIONS": (
        "error CONCURRENT_TRANSACTIONS for transactional id 'flink-7'",
        "kafkawire why --bootstrap-server HOST:PORT --transactional-id flink-7",
    ),
    "InitProducerId timeout": (
        "TimeoutException: Timeout expired after 60000ms while awaiting InitProducerId",
        "kafkawire why --bootstrap-server HOST:PORT --transactional-id ID",
    ),
    "uncleanable": (
        "[kafka-log-cleaner-thread-0]: Marking partition __consumer_offsets-17 as uncleanable: for partition "
        "__consumer_offsets-17",
        "kafkawire why --bootstrap-server HOST:PORT --topic __consumer_offsets --partition 17",
    ),
    "CorruptIndexException": (
        "Found a corrupted index file corresponding to log file /data/orders-0/00000000000000000000.timeindex due to "
        "CorruptIndexException, for partition orders-0",
        "kafkawire dump LOG_DIR/orders-0 --index-sanity-check",
    ),
    "-stray": (
        "Found directory orders-0.9f86d081884c7d659a2feaa0c55ad015-stray",
        "kafkawire dump LOG_DIR --stats --wide",
    ),
    "OFFSET_OUT_OF_RANGE": (
        "Fetch position FetchPosition{offset=12} is out of range for partition orders-4, groupId=shipments",
        "kafkawire why --bootstrap-server HOST:PORT --group shipments",
    ),
}


@pytest.mark.parametrize("word", LINES)
def test_line_leads_to_a_command(word: str) -> None:
    line, command = LINES[word]
    found = recognised(line)
    assert found is not None
    assert (found.word, found.commands[0]) == (word, command)


@pytest.mark.parametrize(
    ("place", "topic", "partition"),
    [
        ("orders-3:", "orders", 3),
        ("orders-3.", "orders", 3),
        ("orders-1017-0: 158", "orders-1017", 0),  # a name that ends as a partition does
        ("orders-1.2-0,", "orders-1.2", 0),
        ("orders-2026-11-27-4 ", "orders-2026-11-27", 4),
    ],
)
def test_partition_of_a_line_is_its_whole_name(place: str, topic: str, partition: int) -> None:
    found = recognised(f"Out of order sequence number for producer 1 at offset 2 in partition {place}")
    assert found is not None
    assert (found.subject.topic, found.subject.partitions) == (topic, (partition,))


def test_sequence_numbers_that_never_arrived_are_named() -> None:
    """aiokafka#1017."""
    found = recognised(LINES["Out of order sequence number"][0])
    assert found is not None
    assert found.found == (
        "The partition never got 2 records, sequence numbers 156 to 157: 155 is its last, 158 came.",
    )
    assert (found.subject.topic, found.subject.partitions) == ("orders", (3,))
    subject = asked(found)
    assert subject is not None
    assert subject.producer_id == 29003


def test_unknown_words_are_none() -> None:
    assert recognised("all is well") is None


@given(st.text(max_size=300))
def test_any_line_is_read(line: str) -> None:
    """Lines are strangers' text: no error, and what is taken from them is quoted in commands."""
    subject_in(line)
    found = recognised(f"ProducerFenced {line}")
    assert found is not None
    for command in found.commands:
        if "\n" not in command and command.isprintable():
            parse(_words(command))


def _words(command: str) -> list[str]:
    import shlex

    return shlex.split(command)[1:]


@pytest.mark.parametrize("word", WORDS, ids=lambda word: word.name)
def test_guide_has_each_word_as_a_heading(word: object) -> None:
    """With what it means, and the commands that `why` prints; the site's search finds headings."""
    name = getattr(word, "name", "")
    text = (ROOT / "docs" / "why.md").read_text("utf-8")
    match = re.search(rf"^### {re.escape(name)}\n\n(.*?)(?=^### |\Z)", text, re.MULTILINE | re.DOTALL)
    assert match is not None
    section = match.group(1)
    assert " ".join(section.split("```")[0].split()) == getattr(word, "means", None)
    shown = [" ".join(args) for args in commands(section)]
    found = recognised(name) or recognised(getattr(word, "patterns", ("",))[0].replace("\\b", ""))
    assert found is not None
    assert shown == [command.removeprefix("kafkawire ") for command in found.commands]
