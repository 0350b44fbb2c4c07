"""Mutated files of every kind; `fuzzing` states the properties, and runs longer."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.logdir import fuzzing


@pytest.mark.slow
@settings(max_examples=12, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 1 << 32))
def test_mutated_files_give_rows_or_damage(tmp_path_factory: object, seed: int) -> None:
    folder: Path = tmp_path_factory.mktemp("fuzz")  # type: ignore[attr-defined]
    seen = fuzzing.run(25, seed, folder)
    assert sum(seen.values())


def test_mutates_files_of_every_kind() -> None:
    assert set(fuzzing.files_of_every_kind()) == {
        *("log", "kraft-snapshot", "index", "timeindex", "txnindex", "snapshot", "epochs", "checkpoint"),
        *("partition-metadata", "meta-properties", "quorum-state", "clean-shutdown"),
    }
