"""tools.bench: every case's contestants have one result, and who is missing is named. No time is asserted."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from tools import ROOT
from tools.bench import __main__ as command
from tools.bench.cases import BenchCase, Inputs, cases
from tools.bench.contestants import Contestant, Entrant, python_peer
from tools.bench.job import AbsentError
from tools.bench.measurement import BenchError, measure
from tools.bench.peak_memory import _SHAPES, _peak, child_peak
from tools.bench.results import BenchRun, Result
from tools.bench.startup import startup

pytestmark = pytest.mark.slow

#: Cases on a hundredth of the records and rows.
SCALE = 100
#: The other cases differ from these in bytes alone.
CHOSEN = (
    "decode/DescribeProducersResponse",
    "encode/TransactionLogValue",
    "no-copy/FetchResponse",
    "strict/ApiVersionsResponse",
    "records/objects/none",
    "records/columns/zstd",
    "records/headers/gzip",
    "columns/TransactionLogValue",
    "dump/deep/lz4",
    "capture/bodies/long",
    "capture/headers/short",
    "dump/parquet/none",
    "isolation/short",
)
#: kio drops the milliseconds of records' timestamps.
DIFFERS = {("records/objects/none", "kio")}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    return Inputs(tmp_path_factory.mktemp("bench"), SCALE)


@pytest.fixture(autouse=True)
def quick_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """A JVM that runs a job twice needs no optimized code."""
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")


def the_case(inputs: Inputs, key: str) -> BenchCase:
    (case,) = cases(inputs, lambda other: other == key)
    return case


def only(case: BenchCase, *entrants: Entrant) -> BenchCase:
    return structs.replace(case, entrants=entrants)


def once(case: BenchCase) -> Result:
    return measure(case, rounds=1, seconds=0, budget=0, warm_up=0)


@pytest.mark.parametrize("key", CHOSEN)
def test_equal_results_of_contestants_pass(inputs: Inputs, key: str) -> None:
    """`measure` compares before it measures, and raises where one of ours differs."""
    case = the_case(inputs, key)
    result = once(case)
    took_part = [timing.contestant for timing in result.timings]
    absent = {absence.contestant: absence.why for absence in result.absent}
    assert sorted([*took_part, *absent]) == sorted(entrant.name for entrant in case.entrants)
    assert any(timing.ours for timing in result.timings)
    assert all(len(timing.seconds) == 1 for timing in result.timings)
    differ = {(key, name) for name, why in absent.items() if "another result" in why}
    assert differ == {place for place in DIFFERS if place[0] == key and place[1] in absent}
    assert len(result.memory) == (len(took_part) if key.startswith("decode/") else 0)


def test_different_result_of_ours_is_an_error(inputs: Inputs) -> None:
    case = the_case(inputs, "decode/TransactionLogValue")
    ours = [entrant for entrant in case.entrants if entrant.name == "kafkawire python"]
    with pytest.raises(BenchError, match="kafkawire python has another result"):
        once(structs.replace(only(case, *ours), check="0" * 64))


def test_different_result_of_a_peer_is_reported(inputs: Inputs) -> None:
    pytest.importorskip("kio")
    case = the_case(inputs, "decode/ProduceRequest")
    kio = [entrant for entrant in case.entrants if entrant.name == "kio"]
    result = once(structs.replace(only(case, *kio), check="0" * 64))
    assert [absence.why for absence in result.absent] == ["kio has another result than the others"]
    assert result.timings == ()


def test_measures_memory_of_a_message(inputs: Inputs) -> None:
    """A message, its tuple of three topics, each with a name and a tuple of partitions: some hundred bytes each."""
    case = the_case(inputs, "decode/TransactionLogValue")
    ours = [entrant for entrant in case.entrants if entrant.name == "kafkawire python"]
    (memory,) = once(only(case, *ours)).memory
    assert 300 < memory.retained < 3000
    assert 8 <= memory.blocks <= 40
    assert memory.taken > 300


def test_missing_library_is_reported(inputs: Inputs, tmp_path: Path) -> None:
    (tmp_path / "kio").mkdir()
    (tmp_path / "kio" / "__init__.py").write_text("raise ImportError")
    case = the_case(inputs, "decode/MetadataResponse")
    (kio,) = (entrant for entrant in case.entrants if entrant.name == "kio")
    with pytest.raises(AbsentError, match="kio is not installed"):
        Contestant(replace(kio, environment={"PYTHONPATH": str(tmp_path)}))


def test_missing_java_is_reported(inputs: Inputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    case = the_case(inputs, "decode/TransactionLogValue")
    (java,) = (entrant for entrant in case.entrants if entrant.name == "Java")
    (absence,) = once(only(case, java)).absent
    assert absence.contestant == "Java"
    assert f"no java in {tmp_path}/bin" in absence.why


def test_failing_peer_is_reported(inputs: Inputs) -> None:
    case = the_case(inputs, "decode/TransactionLogValue")
    broken = python_peer(
        "kio", "library_jobs:kio", operation="decode", message="MetadataResponse", version="12", path="/nowhere"
    )
    (absence,) = once(only(case, broken)).absent
    assert absence.why.startswith("kio fails: FileNotFoundError")


def test_failing_job_of_ours_is_an_error(inputs: Inputs) -> None:
    case = the_case(inputs, "decode/TransactionLogValue")
    (ours,) = (entrant for entrant in case.entrants if entrant.name == "kafkawire python")
    nowhere = [option if not option.startswith("path=") else "path=/nowhere" for option in ours.job]
    with pytest.raises(BenchError, match="kafkawire python: FileNotFoundError"):
        once(only(case, replace(ours, job=nowhere)))


def test_measures_start_up(inputs: Inputs) -> None:
    first, second = startup(1)
    assert (first.key, second.key) == command.STARTUP
    names = {timing.contestant for timing in first.timings} | {absence.contestant for absence in first.absent}
    assert names == {"kafkawire native", "kafkawire python", "kio", "kafka-python"}
    assert first.timing("kafkawire python")
    assert all(len(timing.seconds) == 1 for timing in second.timings)


def test_rejects_an_unknown_case(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--only", "nothing"]) == 1
    assert "no case's key holds nothing; they are decode/DescribeProducersResponse" in capsys.readouterr().err


@pytest.mark.slow
def test_peak_of_a_dump_to_parquet_is_measured() -> None:
    """Parquet needs a file; a command that fails has no peak."""
    segment = next((ROOT / "examples").rglob("00000000000000000000.log"))
    assert _peak("native", "dump", str(segment), *_SHAPES["Parquet"]) is not None


def test_peak_of_a_command_does_not_include_that_of_the_process_that_measures() -> None:
    mine = bytearray(256 << 20)
    small, large = (
        child_peak([sys.executable, "-S", "-c", f"bytearray({size} << 20)"], os.environ) for size in (0, 128)
    )
    assert small is not None
    assert large is not None
    assert small < 64 << 20 < 128 << 20 < large < len(mine)
    assert child_peak([sys.executable, "-c", "raise SystemExit(2)"], os.environ) is None


@pytest.mark.slow
def test_an_error_in_one_table_keeps_what_others_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(rounds: int) -> list[Result]:
        raise BenchError("no start was measured")

    kept = tmp_path / "run.json"
    monkeypatch.setattr(command, "startup", fail)
    wanted = ["--only", "startup/import", "--only", "strict/ApiVersionsResponse"]
    assert command.main([*wanted, "--rounds", "1", "--seconds", "0.001", "--json", str(kept)]) == 1
    assert [result.key for result in msgspec.json.decode(kept.read_bytes(), type=BenchRun).results] == [
        "strict/ApiVersionsResponse"
    ]
    assert capsys.readouterr().err.endswith("error: no start was measured\n")
