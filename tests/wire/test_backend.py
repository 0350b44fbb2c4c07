"""Which engine runs: what is installed, what `KAFKAWIRE_BACKEND` says, and nothing silently."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import kafkawire
from kafkawire.wire import backend

#: What a process does before it imports kafkawire: take the engine away, or break it.
ABSENT = "import sys; sys.modules['kafkawire._native'] = None; "
BROKEN = """
import sys
class Broken:
    def find_spec(self, name, path=None, target=None):
        if name == "kafkawire._native":
            raise ImportError("undefined symbol: PyNothing")
sys.meta_path.insert(0, Broken())
"""
#: An engine that was built from sources with another interface, or from ones that had no such constant yet.
STALE = """
import sys, types
sys.modules["kafkawire._native"] = types.ModuleType("kafkawire._native")
"""
INSTALLED = find_spec("kafkawire._native") is not None
USES = ["kafkawire.backend", "kafkawire.messages.EndTxnMarker.decode(bytes(4), 0)"]


def python(code: str, wanted: str | None) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "KAFKAWIRE_BACKEND"}
    if wanted is not None:
        environment["KAFKAWIRE_BACKEND"] = wanted
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=60)


@pytest.mark.parametrize("wanted", [None, "", "python"])
@pytest.mark.parametrize("before", [ABSENT, ""])
def test_python_runs_where_no_engine_is_or_none_is_wanted(before: str, wanted: str | None) -> None:
    done = python(f"{before}import kafkawire; print(kafkawire.backend, {USES[1]})", wanted)
    expected = "native" if INSTALLED and not before and wanted != "python" else "python"
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{expected} EndTxnMarker()\n", "")


@pytest.mark.parametrize("use", USES)
def test_an_engine_that_is_not_there_fails_loudly(use: str) -> None:
    done = python(f"{ABSENT}import kafkawire; print({use})", "native")
    assert (done.returncode, done.stdout) == (1, "")
    assert "BackendError: KAFKAWIRE_BACKEND=native, but the native engine is not installed" in done.stderr


@pytest.mark.parametrize("use", USES)
def test_an_engine_that_cannot_be_loaded_says_so(use: str) -> None:
    done = python(f"{BROKEN}import kafkawire; print({use})", "native")
    assert (done.returncode, done.stdout) == (1, "")
    assert "but the native engine cannot be loaded: undefined symbol: PyNothing" in done.stderr
    done = python(f"{BROKEN}import kafkawire; kafkawire.backend; print({use})", None)
    assert done.returncode == 0
    assert done.stdout in ("python\n", "EndTxnMarker()\n")
    assert "RuntimeWarning: the native engine of kafkawire cannot be loaded: undefined symbol" in done.stderr
    assert python(f"{BROKEN}import kafkawire; print({use})", "python").stderr == ""


@pytest.mark.parametrize("interface", ["", "sys.modules['kafkawire._native'].INTERFACE = b'class Codec: ...'\n"])
def test_an_engine_of_other_sources_says_so(interface: str) -> None:
    before, use = STALE + interface, USES[1]
    done = python(f"{before}import kafkawire; print({use})", "native")
    assert (done.returncode, done.stdout) == (1, "")
    sentence = "cannot be loaded: it was built from other sources than these; `pip install -e .` builds it again"
    assert f"BackendError: KAFKAWIRE_BACKEND=native, but the native engine {sentence}\n" in done.stderr
    done = python(f"{before}import kafkawire; kafkawire.backend; print({use})", None)
    assert (done.returncode, done.stdout) == (0, "EndTxnMarker()\n")
    assert f"RuntimeWarning: the native engine of kafkawire {sentence}; pure Python runs\n" in done.stderr


@pytest.mark.skipif(backend.native is None, reason="the native engine does not run")
def test_the_engine_tells_its_interface() -> None:
    stub = Path(kafkawire.__file__).with_name("_native.pyi")
    assert backend.native is not None
    assert b"class Codec" in backend.native.INTERFACE
    assert not stub.exists() or stub.read_bytes() == backend.native.INTERFACE


@pytest.mark.parametrize("wanted", ["rust", "Python", "native,python"])
@pytest.mark.parametrize("use", USES)
def test_an_unknown_engine_is_refused(wanted: str, use: str) -> None:
    done = python(f"import kafkawire; print({use})", wanted)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"BackendError: KAFKAWIRE_BACKEND={wanted!r} is neither 'python' nor 'native'" in done.stderr


def test_the_engine_that_runs_is_the_one_named() -> None:
    wanted = os.environ.get("KAFKAWIRE_BACKEND") or ("native" if INSTALLED else "python")
    assert kafkawire.backend == backend.backend == wanted
    assert (backend.native is None) == (wanted == "python")
    engine = kafkawire.messages.EndTxnMarker.codec.engine
    assert type(engine).__module__ == ("kafkawire.wire.generated" if wanted == "python" else "kafkawire._native")
