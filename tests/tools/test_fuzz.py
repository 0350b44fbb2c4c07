"""What fuzzing starts from, and all that it ever found: every line of the corpus passes its target's check."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tools.fuzz import __main__ as command
from tools.fuzz import inputs, sanitizer, targets
from tools.fuzz.targets import TARGETS, replay

ROOT = Path(__file__).parents[2]


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


def test_a_finding_is_kept_as_a_line_with_what_was_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    (raw / "crash-1").write_bytes(b"\0\xff")
    (path,) = command.saved(TARGETS["records"], raw, tmp_path / "findings", "SUMMARY: what it was")
    assert (path.name, path.read_text()) == ("records-crash-1.txt", "00ff\n")
    assert path.with_suffix(".log").read_text() == "SUMMARY: what it was"
    assert list(raw.iterdir()) == []
    assert command.show([path]) == 0
    assert capsys.readouterr().out == "0 failed\n"


def test_the_engine_that_is_named_is_loaded(tmp_path: Path) -> None:
    engine = find_spec("kafkawire._native")
    if engine is None or engine.origin is None:
        pytest.skip("the native engine is not installed")
    copy = tmp_path / "_native.so"
    shutil.copy(engine.origin, copy)
    program = (
        "from tools.fuzz import sanitizer; sanitizer.load()\n"
        "import kafkawire; from kafkawire import _native; from kafkawire.messages import EndTxnMarker\n"
        "EndTxnMarker.decode(bytes(4), 0); print(kafkawire.backend, _native.__file__)"
    )
    environment = os.environ | {sanitizer.VARIABLE: str(copy), "KAFKAWIRE_BACKEND": "native"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, env=environment)
    assert (done.stdout, done.stderr) == (f"native {copy}\n", "")
