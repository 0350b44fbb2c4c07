"""The case of the bench that reads from S3: all contestants print the same records."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.bench.cases import Inputs
from tools.bench.tier_case import KEY, LOCAL, OBJECTS, TIER, tiers

pytestmark = pytest.mark.slow


def test_all_layouts_are_measured(tmp_path: Path) -> None:
    (result,) = tiers(1, Inputs(tmp_path, scale=100))
    assert result.key == KEY
    assert [timing.contestant for timing in result.timings] == [LOCAL, TIER, OBJECTS]
    assert all(len(timing.seconds) == 1 and timing.process > 0 for timing in result.timings)
