"""What `kafkawire capture` prints of the shipped capture, as a reader sees it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import golden
from tests.cli.runner import Run

EXAMPLE = "examples/capture/transactions.pcap"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("exchanges", ["--client-id", "orders-service"]),
        ("errors", ["--errors"]),
        ("stats", ["--stats"]),
        ("timeline", ["--timeline", "payments-archiver"]),
        ("nothing", ["--topic", "nowhere"]),
    ],
)
def test_example_tables_match_golden_files(
    run: Run, monkeypatch: pytest.MonkeyPatch, name: str, arguments: list[str]
) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    result = run("capture", EXAMPLE, *arguments, "--format", "table")
    assert result.code == 4  # one request in it is of a version that no broker knows
    golden.check(f"capture/{name}.txt", result.text + "\n" + result.err)


def test_example_rows_match_golden_files_in_each_format(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    shown = [
        run("capture", EXAMPLE, "--api", "WriteTxnMarkers", "--connection", "36", "--body", "--format", format).text
        for format in ("jsonl", "json", "csv")
    ]
    golden.check("capture/formats.txt", "\n".join(shown))
