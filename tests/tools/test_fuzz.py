"""What fuzzing starts from, and all that it ever found: seeds and the corpus pass the checks of their targets."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tools.bench.machine_info import commit
from tools.fuzz import __main__ as command
from tools.fuzz import fuzz_outcomes, inputs, libfuzzer_runs, sanitizer, target
from tools.fuzz.libfuzzer_runs import FuzzOutcome
from tools.fuzz.target import FuzzTarget
from tools.fuzz.targets import TARGETS, logs
from tools.recordings.archive import LOG_DIRECTORIES, unpacked

ROOT = Path(__file__).parents[2]
#: Seeds of each target that are run here: enough to show that its check can be run.
SOME = 8


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_corpus_passes(name: str) -> None:
    target = TARGETS[name]
    assert list(target.replay(target.corpus())) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_seeds_pass(name: str) -> None:
    target = TARGETS[name]
    seeds = list(target.seeds())
    assert seeds
    for data in seeds[:: max(1, len(seeds) // SOME)]:
        target.check(data[: target.longest])


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_any_bytes_round_trip_through_their_line(name: str) -> None:
    target = TARGETS[name]
    seeds = [*target.seeds()][:20]
    for data in (b"", b"\xff", b"\xff\xff", b"\xff\xff\x00\x05ab", b"\x00\x00\x00\x01", *seeds):
        line = target.form.text(data)
        assert line.isprintable()
        assert line[0] != "#"
        assert target.form.text(target.form.data(line)) == line
    target.check(b"\xff\xff\x00\x05ab")


def test_lines_of_the_corpus_are_canonical() -> None:
    paths = list(target.CORPUS.iterdir())
    assert {path.stem for path in paths} <= set(TARGETS)
    for one in TARGETS.values():
        for line in one.corpus():
            assert one.form.text(one.form.data(line)) == line


def failing(check: object) -> FuzzTarget:
    return FuzzTarget(name="records", reads="", holds="", check=check, seeds=list)  # type: ignore[arg-type]


def test_reports_a_failing_input() -> None:
    def fail(data: bytes) -> None:
        raise AssertionError(data)

    ((line, error),) = failing(fail).replay(["00ff"])
    assert (line, error.args) == ("00ff", (b"\0\xff",))


def test_excessive_allocation_is_a_failure() -> None:
    assert list(failing(lambda data: bytearray(target.LEAST // 2)).replay(["00"])) == []
    ((_, error),) = failing(lambda data: bytearray(target.LEAST + (1 << 20))).replay(["00"])
    assert "bytes were allocated for 1" in str(error)


@pytest.mark.parametrize("parts", [[], [b""], [b"a"], [b"", b"", b"ab"], [b"x" * 254, b"y" * 300]])
def test_parts_round_trip(parts: list[bytes]) -> None:
    assert inputs.parts_of(inputs.joined(parts)) == parts
    assert inputs.parts_of(inputs.joined(parts), 2) == parts[:2]


def test_sealed_batches_have_valid_checksums() -> None:
    """Of every magic: what is right stays, what is wrong is put right."""
    paths = [path for name in LOG_DIRECTORIES for path in sorted(unpacked(name).glob("data/*/*.log"))]
    seen = set()
    for path in paths:
        data = path.read_bytes()
        if not data:
            continue
        seen.add(data[16])
        assert logs.sealed(data) == data
        place = logs._CRC if data[16] == 2 else logs._OLD_CRC
        broken = bytearray(data)
        broken[place] ^= 1
        assert logs.sealed(bytes(broken)) == data
    assert seen == {0, 1, 2}


def test_finding_is_saved_as_a_line_with_its_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    (raw / "crash-1").write_bytes(b"\0\xff")
    (path,) = libfuzzer_runs.saved(TARGETS["json-text"], raw, tmp_path / "findings", "SUMMARY: what it was")
    name, version, _ = inputs.split(b"\0\xff")
    assert (path.name, path.read_text()) == ("json-text.crash-1.txt", f"{name} {version} -\n")
    assert path.with_suffix(".log").read_text() == "SUMMARY: what it was"
    assert list(raw.iterdir()) == []
    assert command.show([path]) == 0
    assert capsys.readouterr().out == "0 failed\n"


def test_outcomes_are_summed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- fuzz -->\nold\n<!-- /fuzz -->\nafter\n")
    monkeypatch.setattr(fuzz_outcomes, "_PAGE", page)
    for engine, seconds, features in (("installed", 60.0, 10), ("installed", 30.0, 7), ("address", 90.0, 12)):
        fuzz_outcomes.add(FuzzOutcome("records", engine, seconds, 1000, features, 5, []), tmp_path)
    fuzz_outcomes.write(tmp_path)
    text = page.read_text()
    assert text.startswith("before\n<!-- fuzz -->\n| target |")
    assert text.endswith("<!-- /fuzz -->\nafter\n")
    assert f"| 3.0 | 3,000 | 12 | {len(TARGETS['records'].corpus())} |" in text
    assert "2 minutes and 1,000 inputs were with AddressSanitizer" in text
    assert all(f"| `{name}` |" in text for name in TARGETS)
    assert f"Made on {commit()}.\n" in text


@pytest.mark.slow
def test_named_engine_is_loaded(tmp_path: Path) -> None:
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
