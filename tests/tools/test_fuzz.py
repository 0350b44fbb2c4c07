"""What fuzzing starts from, and all that it ever found: every line of the corpus passes its target's check."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.fuzz import inputs, targets
from tools.fuzz.targets import TARGETS, replay


@pytest.mark.parametrize("name", TARGETS)
def test_corpus_passes(name: str) -> None:
    target = TARGETS[name]
    lines = target.corpus()
    assert lines
    assert list(replay(target, lines)) == []


@pytest.mark.parametrize("name", TARGETS)
def test_lines_and_bytes_are_each_others_inverse(name: str) -> None:
    target = TARGETS[name]
    for line in target.corpus():
        assert target.text(target.data(line)) == line


def test_the_corpus_is_written_in_order_and_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "CORPUS", tmp_path)
    target = TARGETS["records"]
    assert target.corpus() == []
    target.write(["ff", "00", "ff"])
    assert target.path.read_text() == "00\nff\n"
    target.write({*target.corpus(), "0a"})
    assert target.corpus() == ["00", "0a", "ff"]


def test_a_failing_input_is_reported() -> None:
    def fail(data: bytes) -> None:
        raise AssertionError(data)

    target = TARGETS["records"]
    failing = type(target)("records", "", fail, target.text, target.data)
    ((line, error),) = replay(failing, ["00ff"])
    assert (line, error.args) == ("00ff", (b"\0\xff",))


@pytest.mark.parametrize("pieces", [[b""], [b"a"], [b"", b"", b"ab"], [b"x" * 254, b"y" * 300]])
def test_pieces(pieces: list[bytes]) -> None:
    assert inputs.pieces_of(inputs.joined(pieces)) == pieces


def test_any_bytes_are_an_input() -> None:
    for data in (b"", b"\xff", b"\xff\xff", b"\xff\xff\x00\x05ab"):
        for target in TARGETS.values():
            assert target.data(target.text(data)) is not None
