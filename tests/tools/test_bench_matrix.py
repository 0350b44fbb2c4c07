"""tools.bench.matrix: every shape is a command that runs, and what is above its gate is marked. No time is asserted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.bench.cases import Inputs
from tools.bench.matrix import Shape, seconds, shapes, table


def test_what_is_above_its_gate_is_bold() -> None:
    plain = Shape("capture", ("capture",), ("jsonl", "csv"))
    chosen = Shape("capture --api", ("capture", "--api", "Fetch"), ("jsonl",), "capture", 1.1)
    text = table(
        [(plain, 1.0, {"jsonl": 1.0, "csv": 2.5}), (chosen, 1.0, {"jsonl": 1.12}), (chosen, 1.0, {"jsonl": 1.3})]
    )
    assert [line.split(" | ")[3:7] for line in text.splitlines()[2:]] == [
        ["2", "1.00", "", "**2.50**"],
        ["1.1", "1.12", "", ""],
        ["1.1", "**1.30**", "", ""],
    ]


@pytest.mark.slow
def test_every_shape_is_a_command(tmp_path: Path) -> None:
    listed = list(shapes(Inputs(tmp_path, scale=2000)))
    titles = [shape.title for shape in listed]
    assert len({*titles}) == len(titles)
    for place, shape in enumerate(listed):
        assert shape.against is None or shape.against in titles[:place]
        assert seconds(shape.words, shape.formats[-1], 1, tmp_path / "compiled") > 0
