"""`python -m tools.fuzz`: fuzz every target for its share of the time, and print what was found.

    --minutes 30            in all; the targets take turns
    --targets codecs ...    only these
    --seed 1                the same seed, corpus and code give the same inputs
    --sanitize address      with a native engine compiled for it: reads and writes beside what is allocated, overflows,
                            and failing debug assertions are findings; slower (see `sanitizer`; needs a Rust compiler)
    --keep                  instead of fuzzing: what earlier runs found and covers something new goes to the corpus
    --replay FILE...        run inputs that were saved (lines of a corpus), and print what they raise

Findings are saved in `fuzz/findings/` as lines of the corpus, each with what was printed (`.log`); add them to
`tools/fuzz/corpus/` with the fix. Exit code 1 where there are any.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

from kafkawire import backend
from tools.fuzz import sanitizer
from tools.fuzz.targets import TARGETS, Target, replay

ROOT = Path(__file__).parents[2]
#: Longest input, most memory of a run in MiB, and most seconds of one input. A run ends after some inputs, because code
#: that atheris instrumented keeps memory (60 KB an input of records; the same inputs keep none without it).
LIMITS = ("-max_len=1024", "-rss_limit_mb=2048", "-timeout=20")
RUNS = 20_000
#: Longest input in bytes that is added to the committed corpus, which people read, too.
LONGEST_KEPT = 150
#: A target that has failed so often is left alone: its findings would repeat.
MOST_FINDINGS = 10


@dataclass
class Outcome:
    target: Target
    seconds: float = 0
    inputs: int = 0
    corpus: int = 0
    findings: list[Path] = field(default_factory=list)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--targets", nargs="+", choices=sorted(TARGETS), default=list(TARGETS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, default=ROOT / "fuzz")
    parser.add_argument("--sanitize", choices=["address"])
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--replay", nargs="+", type=Path)
    arguments = parser.parse_args()
    if arguments.replay:
        return show(arguments.replay)
    if find_spec("atheris") is None:
        sys.exit("tools.fuzz: atheris is not installed (pip install atheris; it has wheels for CPython up to 3.13)")
    engine = sanitizer.build() if arguments.sanitize else None
    if arguments.keep:
        for name in arguments.targets:
            print(f"{name}: {keep(TARGETS[name], arguments.output, engine)} lines added", flush=True)
        return 0
    engines = "native, with AddressSanitizer" if engine else backend
    print(f"backend: {engines}; {arguments.minutes:g} minutes, seed {arguments.seed}", flush=True)
    seconds = arguments.minutes * 60 / len(arguments.targets)
    outcomes = [fuzz(TARGETS[name], seconds, arguments.seed, arguments.output, engine) for name in arguments.targets]
    for outcome in outcomes:
        print(
            f"{outcome.target.name}: {outcome.inputs:,} inputs in {outcome.seconds:,.0f} s, "
            f"corpus {outcome.corpus:,}, findings {len(outcome.findings)}"
        )
        for path in outcome.findings:
            print(f"  {path}: python -m tools.fuzz --replay {path}")
    return int(any(outcome.findings for outcome in outcomes))


def fuzz(target: Target, seconds: float, seed: int, output: Path, engine: Path | None) -> Outcome:
    """Run after run until the time is over: libFuzzer ends at its first finding."""
    outcome = Outcome(target)
    corpus, seeds, raw = folders(target, output)
    end = time.monotonic() + seconds
    while (left := int(end - time.monotonic())) > 0 and len(outcome.findings) < MOST_FINDINGS:
        start = time.monotonic()
        options = (f"-max_total_time={left}", f"-seed={seed}", f"-runs={RUNS}", f"-artifact_prefix={raw}/")
        done = run(target, engine, *options, str(corpus), str(seeds))
        outcome.seconds += time.monotonic() - start
        counted = re.search(r"number_of_executed_units:\s*(\d+)", done.stderr)
        outcome.inputs += int(counted[1]) if counted else 0
        outcome.findings += saved(target, raw, output / "findings", done.stderr)
        if done.returncode and not outcome.findings:
            failed(done)
        seed += 1
    outcome.corpus = sum(1 for _ in corpus.iterdir())
    return outcome


def keep(target: Target, output: Path, engine: Path | None) -> int:
    """Adds to the committed corpus what earlier runs found and covers something new, the smallest first; how many."""
    corpus, seeds, raw = folders(target, output)
    done = run(target, engine, "-merge=1", f"-artifact_prefix={raw}/", str(seeds), str(corpus))
    if done.returncode:
        failed(done)
    before = target.corpus()
    merged = (path.read_bytes() for path in seeds.iterdir())
    target.write({*before, *(target.text(data) for data in merged if len(data) <= LONGEST_KEPT)})
    return len(target.corpus()) - len(before)


def folders(target: Target, output: Path) -> tuple[Path, Path, Path]:
    """Where runs keep what is of use, the committed corpus as files, and where libFuzzer leaves findings."""
    corpus, seeds, raw = (output / name / target.name for name in ("corpus", "seeds", "raw"))
    shutil.rmtree(seeds, ignore_errors=True)
    for folder in (corpus, seeds, raw):
        folder.mkdir(parents=True, exist_ok=True)
    for line in target.corpus():
        data = target.data(line)
        (seeds / hashlib.sha1(data).hexdigest()).write_bytes(data)
    return corpus, seeds, raw


def run(target: Target, engine: Path | None, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tools.fuzz.harness", target.name, "-print_final_stats=1", *LIMITS, *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, errors="replace", env=environment(engine))


def failed(done: subprocess.CompletedProcess[str]) -> NoReturn:
    sys.exit(f"{done.stdout[-2000:]}{done.stderr[-4000:]}")


def environment(engine: Path | None) -> dict[str, str]:
    # The same order of sets and dicts of strings in every run.
    return os.environ | {"PYTHONHASHSEED": "0"} | (sanitizer.environment(engine) if engine else {})


def saved(target: Target, raw: Path, folder: Path, printed: str) -> list[Path]:
    """libFuzzer's artifacts (crash-..., timeout-..., oom-...) as lines of text, one a file."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for artifact in sorted(raw.iterdir()):
        path = folder / f"{target.name}-{artifact.name}.txt"
        path.write_text(target.text(artifact.read_bytes()) + "\n")
        path.with_suffix(".log").write_text(printed[-20_000:])
        artifact.unlink()
        paths.append(path)
    return paths


def show(paths: list[Path]) -> int:
    """What saved inputs raise; a file's name begins with its target's, as those in the corpus do."""
    failed = 0
    for path in paths:
        target = TARGETS[re.split(r"[-.]", path.name)[0]]
        lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
        for line, error in replay(target, lines):
            failed += 1
            print(f"{target.name}: {line[:200]}\n  {type(error).__name__}: {error}")
    print(f"{failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
