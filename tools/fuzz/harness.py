"""`python -m tools.fuzz.harness TARGET ARGUMENT...`: one run of libFuzzer; the arguments are libFuzzer's own.

The package is instrumented as it is imported, so that a fuzzer finds its way through the Python in it. The installed
native engine is compiled without coverage: its paths are those of the interpreter, which runs on the same bytes. One
that is compiled for fuzzing (`sanitizer`) shows its own paths as well.
"""

from __future__ import annotations

import shlex
import sys

import atheris

from tools.fuzz import sanitizer


def main() -> None:
    name, *options = sys.argv[1:]
    sanitizer.load()
    with atheris.instrument_imports(include=["kafkawire", "scramp"]):
        from tools.fuzz.targets import TARGETS

        target = TARGETS[name]
        target.check(b"")  # what a check imports when it first runs is instrumented too
    # libFuzzer gives its first argument to a shell when it starts itself again (`-merge=1`).
    again = shlex.join([sys.executable, "-m", "tools.fuzz.harness", name])
    atheris.Setup([again, *options], target.run)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
