"""The measurement of `audit --jobs`: that it compares the answers, and what it writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkawire.transactions.auditing import local_audit
from tools.bench import audit_jobs
from tools.bench.audit_jobs import Compared, Run, main, markdown
from tools.bench.measurement import BenchError

pytestmark = pytest.mark.slow

_MIB = 1 << 20


def of(seconds: tuple[float, float], transactions: int = 20_000_000) -> Compared:
    one, two = (Run(value, 1.5, 300 * _MIB) for value in seconds)
    return Compared(1, transactions, 900 * _MIB, one, two)


def test_a_row_says_how_many_times_as_fast_two_threads_are() -> None:
    assert of((6.0, 3.0)).row == (
        "| one partition of 20,000,000 transactions | 40 M | 900 MiB | 6.00 s | 3.00 s | 2.00 | 1.50 s | 1.50 s "
        "| 300 MiB | 300 MiB |"
    )


def test_only_large_logs_have_a_gate() -> None:
    assert "batches on: met." in markdown([of((6.0, 3.0)), of((1.0, 1.0), 1000)], 1)
    assert "batches on: not met (1.50)." in markdown([of((3.0, 2.0)), of((6.0, 3.0))], 1)
    assert "batches on: not measured." in markdown([of((1.0, 1.0), 1000)], 1)


def test_small_logs_are_measured_and_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["3x20", "--rounds", "1", "--keep", str(tmp_path)]) == 0
    (row,) = [line for line in capsys.readouterr().out.splitlines() if "3 partitions of 20 transactions" in line]
    assert len(row.split("|")) == len(audit_jobs.HEAD.splitlines()[0].split("|"))
    assert sum(1 for _ in (tmp_path / "3x20").glob("*/*.log")) == 3
    main(["3x20", "--rounds", "1", "--keep", str(tmp_path)])  # they are not written twice


def test_refuses_answers_that_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([b"one", b"two", b"two"])
    monkeypatch.setattr(audit_jobs, "audited", lambda *_: (Run(1, 1, 1), next(answers)))
    with pytest.raises(BenchError, match="something else"):
        audit_jobs.compared(tmp_path, 1, 1, 1)


def test_the_measured_logs_are_large_enough_for_two_threads() -> None:
    for partitions, transactions in audit_jobs.SIZES:
        assert partitions * transactions * 150 > 2 * local_audit.BYTES_A_JOB
