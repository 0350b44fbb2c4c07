"""`python -m tools.fuzz`: fuzz every target for its share of the time, and print what was found.

    --minutes 30            in all; the targets take turns
    --targets codecs ...    only these
    --seed 1                the same seed, corpus and code give the same inputs
    --sanitize address      with a native engine compiled for it: reads and writes beside what is allocated, overflows,
                            and failing debug assertions are findings; slower (see `sanitizer`; needs a Rust compiler)
    --replay FILE...        run inputs that were saved (lines of a corpus), and print what they raise
    --write                 instead of fuzzing: what all runs in `fuzz/` came to, as the table in SECURITY.md

Findings are saved in `fuzz/findings/` as lines of the corpus, each with what was printed (`.log`); add them to
`tools/fuzz/corpus/` with the fix. Exit code 1 where there are any.
"""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path

from kafkawire import backend
from tools import ROOT
from tools.fuzz import fuzz_outcomes, sanitizer
from tools.fuzz.libfuzzer_runs import fuzz
from tools.fuzz.targets import TARGETS


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--targets", nargs="+", choices=sorted(TARGETS), default=list(TARGETS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, default=ROOT / "fuzz")
    parser.add_argument("--sanitize", choices=["address"])
    parser.add_argument("--replay", nargs="+", type=Path)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    if arguments.replay:
        return show(arguments.replay)
    if arguments.write:
        fuzz_outcomes.write(arguments.output)
        return 0
    if find_spec("atheris") is None:
        sys.exit("tools.fuzz: atheris is not installed (pip install atheris; it has wheels for CPython up to 3.13)")
    engine = sanitizer.build() if arguments.sanitize else None
    engines = "native, with AddressSanitizer" if engine else backend
    print(f"backend: {engines}; {arguments.minutes:g} minutes, seed {arguments.seed}", flush=True)
    seconds = arguments.minutes * 60 / len(arguments.targets)
    failed = False
    for name in arguments.targets:
        outcome = fuzz(TARGETS[name], seconds, arguments.seed, arguments.output, engine)
        fuzz_outcomes.add(outcome, arguments.output)
        print(
            f"{name}: {outcome.inputs:,} inputs in {outcome.seconds:,.0f} s, {outcome.features:,} features, "
            f"corpus {outcome.corpus:,}, findings {len(outcome.findings)}",
            flush=True,
        )
        for path in outcome.findings:
            print(f"  {path}: python -m tools.fuzz --replay {path}", flush=True)
        failed = failed or bool(outcome.findings)
    return int(failed)


def show(paths: list[Path]) -> int:
    """What saved inputs raise; a file's name begins with its target's, as those in the corpus do."""
    failed = 0
    for path in paths:
        target = TARGETS[path.name.partition(".")[0]]
        lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
        for line, error in target.replay(lines):
            failed += 1
            print(f"{target.name}: {line[:200]}\n  {type(error).__name__}: {error}")
    print(f"{failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
