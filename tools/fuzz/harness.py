"""`python -m tools.fuzz.harness TARGET ARGUMENT...`: one run of libFuzzer; the arguments are libFuzzer's own.

The rooms that a fuzzer should find its way through are instrumented as they are imported: readers, interpreter, columns
and records in Python. The installed native engine is compiled without coverage: its paths are those of the interpreter,
which runs on the same bytes. One that is compiled for fuzzing (`sanitizer`) shows its own paths as well.
"""

from __future__ import annotations

import shlex
import sys

import atheris

from tools.fuzz import sanitizer


def main() -> None:
    target, *options = sys.argv[1:]
    sanitizer.load()
    with atheris.instrument_imports(include=["kafkawire"]):
        from tools.fuzz.targets import TARGETS

        check = TARGETS[target].check
        check(b"")  # what a check imports when it first runs is instrumented too
    # libFuzzer gives its first argument to a shell when it starts itself again (`-merge=1`).
    again = shlex.join([sys.executable, "-m", "tools.fuzz.harness", target])
    atheris.Setup([again, *options], check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
