"""A native engine for fuzzing: with AddressSanitizer, and with coverage that libFuzzer sees.

It is compiled into a folder of its own and loaded in the place of the installed one. Integer overflows and failing
debug assertions are findings, too.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path

from tools import ROOT

TARGET = ROOT / "native" / "target" / "address"
#: Names the engine that a run loads instead of the installed one.
VARIABLE = "KAFKAWIRE_FUZZ_ENGINE"
_COVERAGE = ("-level=4", "-inline-8bit-counters", "-pc-table", "-trace-compares")
_FLAGS = [
    "-Zsanitizer=address",
    "-Cpasses=sancov-module",
    *(f"-Cllvm-args=-sanitizer-coverage{option}" for option in _COVERAGE),
]


def build() -> Path:
    """Compiles the engine (Cargo's own incremental build); the file to load. Ends the program where that fails.

    Sanitizers are an unstable feature of the compiler; RUSTC_BOOTSTRAP opens it in a stable one. With a target named,
    the flags are not for what runs while compiling.
    """
    host = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout
    triple = next(line.removeprefix("host: ") for line in host.splitlines() if line.startswith("host: "))
    environment = os.environ | {
        "RUSTC_BOOTSTRAP": "1",
        "RUSTFLAGS": " ".join(_FLAGS),
        "CARGO_TARGET_DIR": str(TARGET),
        "CARGO_PROFILE_RELEASE_LTO": "off",
        "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "16",
        "CARGO_PROFILE_RELEASE_OPT_LEVEL": "1",
        "CARGO_PROFILE_RELEASE_DEBUG": "1",
        "CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS": "true",
        "CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS": "true",
        "PYO3_PYTHON": sys.executable,
    }
    manifest = ROOT / "native" / "Cargo.toml"
    command = ["cargo", "build", "-q", "--release", "--target", triple, "--manifest-path", str(manifest)]
    if subprocess.run(command, env=environment).returncode:
        sys.exit("tools.fuzz: the engine cannot be compiled with AddressSanitizer")
    built = TARGET / triple / "release" / "lib_native.so"
    engine = TARGET / f"_native{EXTENSION_SUFFIXES[0]}"
    engine.unlink(missing_ok=True)
    os.link(built, engine)
    return engine


def environment(engine: Path) -> dict[str, str]:
    """What a run needs: the sanitizer's runtime (atheris brings it, with libFuzzer in it) before anything else.

    Objects are allocated one by one, so that reads beside one are seen. What Python never frees is no leak.
    """
    runtime = _runtime()
    return {
        VARIABLE: str(engine),
        "LD_PRELOAD": str(runtime),
        "PYTHONMALLOC": "malloc",
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:quarantine_size_mb=64",
    }


def _runtime() -> Path:
    spec = find_spec("atheris")
    if spec is None or spec.origin is None:
        sys.exit("tools.fuzz: atheris is not installed")
    return Path(spec.origin).parents[1] / "asan_with_fuzzer.so"


def load() -> None:
    """Puts the engine that the environment names in the place of the installed one; call it before any import."""
    path = os.environ.get(VARIABLE)
    if not path:
        return
    spec = spec_from_file_location("kafkawire._native", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules["kafkawire._native"] = module
