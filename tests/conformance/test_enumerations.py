"""The numbers that sentences on fields explain, against Kafka's enums."""

from __future__ import annotations

import pytest

from tools.broker import BrokerUnavailableError
from tools.conformance import enumerations
from tools.conformance.enumerations import ENUMERATIONS, PLAIN, asked, compare, sentences

#: As Kafka 4.4.0 has it: for a test without Java.
DELIVERY = "org.apache.kafka.server.share.fetch.RecordState"


@pytest.fixture(scope="module")
def numbers() -> dict[str, dict[int, str]]:
    try:
        return asked()
    except (BrokerUnavailableError, FileNotFoundError) as error:
        pytest.skip(str(error))


@pytest.mark.slow
def test_every_sentence_explains_the_numbers_of_its_enum(numbers: dict[str, dict[int, str]]) -> None:
    assert compare(numbers) == []


@pytest.mark.slow
def test_a_number_that_a_sentence_does_not_know_fails(numbers: dict[str, dict[int, str]]) -> None:
    """A state more than the sentences explain, and one less; in four messages."""
    more = {**numbers, DELIVERY: {**numbers[DELIVERY], 5: "LATER"}}
    found = compare(more)
    assert len(found) == 4
    assert all("does not explain 5, LATER" in text for text in found)
    less = {**numbers, DELIVERY: {n: name for n, name in numbers[DELIVERY].items() if n != 3}}
    assert all("explains 3, which" in text for text in compare(less))
    assert len(compare(less)) == 4


@pytest.mark.slow
def test_a_sentence_that_is_compared_with_nothing_fails(
    numbers: dict[str, dict[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(enumerations, "ENUMERATIONS", ENUMERATIONS[1:])
    assert any("is compared with no enum" in text for text in compare(numbers))


def test_the_exceptions_are_of_sentences_that_are_there() -> None:
    names = {one.last for one in sentences()}
    assert set(PLAIN) <= names
    assert all(row.enum.count("#") == 1 for row in ENUMERATIONS)
