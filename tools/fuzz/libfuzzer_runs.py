"""Successive runs of libFuzzer on a target, each in its own process, until its time is over; and their outcome."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from tools import ROOT
from tools.fuzz import sanitizer
from tools.fuzz.target import FuzzTarget

#: Limits of a run: memory in MiB, seconds for one input, number of inputs. The last one is there because code that
#: atheris instruments keeps memory (60 KB an input of records; none without instrumentation).
LIMITS = ("-rss_limit_mb=2048", "-timeout=20", "-report_slow_units=20")
RUNS = 20_000
#: A file system in memory, if it exists.
_MEMORY = "/dev/shm"
#: A target with this many findings is not run again: its findings would repeat.
MOST_FINDINGS = 10

_INPUTS = re.compile(r"number_of_executed_units:\s*(\d+)")
_FEATURES = re.compile(r"^#\d+\s.*\bft: (\d+)", re.MULTILINE)


@dataclass
class FuzzOutcome:
    """The outcome of the runs of one target.

    Attributes:
        features: the most features that one run covered (libFuzzer's pairs of a place in the code and a count).
        corpus: number of inputs, each with coverage that the others do not have.
        findings: files of failing inputs, or of the output of a run that failed without one.
    """

    target: str
    engine: str
    seconds: float = 0
    inputs: int = 0
    features: int = 0
    corpus: int = 0
    findings: list[Path] = field(default_factory=list)


def fuzz(target: FuzzTarget, seconds: float, seed: int, output: Path, engine: Path | None) -> FuzzOutcome:
    """Runs libFuzzer until the time is over. A run ends at its first finding.

    Args:
        seconds: of all runs together. `seed`: of the first run; each further one counts on.
        output: folder of corpora and findings. `engine`: the native engine to load; None for the installed one.
    """
    outcome = FuzzOutcome(target.name, "address" if engine else "installed")
    home = output.absolute() / target.name
    corpus, seeds, raw = (home / name for name in ("corpus", "seeds", "raw"))
    shutil.rmtree(seeds, ignore_errors=True)
    for folder in (corpus, seeds, raw):
        folder.mkdir(parents=True, exist_ok=True)
    for data in (*target.seeds(), *map(target.form.data, target.corpus())):
        (seeds / hashlib.sha1(data).hexdigest()).write_bytes(data[: target.longest])
    words = home / "words"
    words.write_text("".join(f'"{_escaped(word)}"\n' for word in target.words))
    fixed = [f"-artifact_prefix={raw}/", f"-max_len={target.longest}"]
    fixed += [f"-dict={words}"] if target.words else []
    end = time.monotonic() + seconds
    while (left := int(end - time.monotonic())) > 0 and len(outcome.findings) < MOST_FINDINGS:
        start = time.monotonic()
        options = (f"-max_total_time={left}", f"-seed={seed}", f"-runs={RUNS}", *fixed)
        done = run(target, engine, *options, str(corpus), str(seeds))
        outcome.seconds += time.monotonic() - start
        outcome.inputs += sum(map(int, _INPUTS.findall(done.stderr)))
        outcome.features = max([outcome.features, *map(int, _FEATURES.findall(done.stderr))])
        found = saved(target, raw, output / "findings", done.stderr)
        if done.returncode and not found:  # it ended before libFuzzer could write the input
            found = [output / "findings" / f"{target.name}.ended-{seed}.log"]
            found[0].write_text(f"{done.stdout[-2000:]}{done.stderr[-20_000:]}")
        outcome.findings += found
        seed += 1
    outcome.corpus = sum(1 for _ in corpus.iterdir())
    return outcome


def run(target: FuzzTarget, engine: Path | None, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tools.fuzz.harness", target.name, "-print_final_stats=1", *LIMITS, *options]
    # The same order of sets and dicts of strings in every run.
    variables = os.environ | {"PYTHONHASHSEED": "0"} | (sanitizer.environment(engine) if engine else {})
    # libFuzzer ends a process without leave: what it has written is removed here.
    with tempfile.TemporaryDirectory(dir=_MEMORY if Path(_MEMORY).is_dir() else None) as scratch:
        variables["TMPDIR"] = scratch
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, errors="replace", env=variables)


def saved(target: FuzzTarget, raw: Path, folder: Path, printed: str) -> list[Path]:
    """libFuzzer's artifacts (crash-..., timeout-..., oom-...) as lines of text, one a file.

    Args:
        raw: libFuzzer's folder of artifacts, which are deleted. `folder`: of the findings.
        printed: standard error of the run, of which the end is kept.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for artifact in sorted(raw.iterdir()):
        path = folder / f"{target.name}.{artifact.name}.txt"
        path.write_text(target.form.text(artifact.read_bytes()) + "\n")
        path.with_suffix(".log").write_text(printed[-20_000:])
        artifact.unlink()
        paths.append(path)
    return paths


def _escaped(word: bytes) -> str:
    """As libFuzzer reads the lines of a dictionary."""
    return "".join(f"\\x{byte:02x}" for byte in word)
