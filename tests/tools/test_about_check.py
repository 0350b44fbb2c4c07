"""`about_check`: every shipped message, field and error code has sentences that add something to its name."""

from __future__ import annotations

from typing import Any

import pytest

from tools.import_schemas import about_check


def schema(
    about: str | None, field_about: str | None = "Milliseconds of the broker's clock; -1 when unknown."
) -> dict[str, Any]:
    field = {"name": "StartTimeMs", "type": "int64", "versions": "0+", "about": field_about}
    return {"name": "FooRequest", "about": about, "fields": [field], "commonStructs": []}


def test_everything_that_is_shipped_has_its_sentences() -> None:
    assert about_check.main([]) == 0


@pytest.mark.parametrize(
    ("about", "field_about", "problem"),
    [
        (None, "Milliseconds.", "FooRequest: no sentence"),
        ("A foo request.", "Milliseconds.", "FooRequest: restates the name"),
        ("Starts a run.", None, "FooRequest.StartTimeMs: no sentence"),
        ("Starts a run.", "The start time.", "FooRequest.StartTimeMs: restates the name"),
        ("Starts a run.", "Start times of each ms.", "FooRequest.StartTimeMs: restates the name"),
        ("Starts a run", "Milliseconds.", "FooRequest: no sentence with a full stop"),
        ("Starts  a run.", "Milliseconds.", "FooRequest: no sentence with a full stop"),
        ("Starts a run. " + "Runs. " * 100 + "End.", "Milliseconds.", "FooRequest: 618 characters are more than 600"),
    ],
)
def test_reports_what_is_missing_or_adds_nothing(about: str | None, field_about: str | None, problem: str) -> None:
    (found,) = about_check.check(schema(about, field_about))
    assert found.startswith(problem)


def test_sound_sentences_are_no_problem() -> None:
    assert list(about_check.check(schema("Starts a run on the broker."))) == []


def test_fields_of_common_structs_are_looked_at() -> None:
    common = {"name": "Bar", "fields": [{"name": "Id", "type": "uuid", "versions": "0+"}]}
    assert [path for path, _ in about_check.fields_of(schema("x") | {"commonStructs": [common]})] == [
        "StartTimeMs",
        "Bar.Id",
    ]


@pytest.mark.parametrize(
    ("advice", "problem"),
    [
        ({}, "FOO_FAILED: no cause and advice"),
        ({"FOO_FAILED": ["The disk is full.", "Delete."], "BAR": ["Any.", "Any."]}, "BAR: no error has this name"),
        ({"FOO_FAILED": ["The disk is full."]}, "FOO_FAILED: 1 texts, not a cause and advice"),
        ({"FOO_FAILED": ["The foo failed.", "Delete."]}, "FOO_FAILED: restates the name"),
        ({"FOO_FAILED": ["The disk is full.", "Delete"]}, "FOO_FAILED: no sentence with a full stop"),
    ],
)
def test_reports_error_codes_without_a_cause_and_what_to_do(advice: dict[str, list[str]], problem: str) -> None:
    (found,) = about_check.check_advice({"FOO_FAILED"}, advice)
    assert found.startswith(problem)
