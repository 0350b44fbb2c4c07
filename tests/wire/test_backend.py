"""Which engine runs: what is installed, what `KAFKAWIRE_BACKEND` says, and nothing silently."""

from __future__ import annotations

import os
import subprocess
import sys
import types
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import kafkawire
from kafkawire.errors import BackendError
from kafkawire.wire import backend

INSTALLED = find_spec("kafkawire._native") is not None
NAME = "kafkawire._native"
OTHER_SOURCES = "cannot be loaded: it was built from other sources than these; `pip install -e .` builds it again"


class Broken:
    """A finder of an engine that does not load."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name == NAME:
            raise ImportError("undefined symbol: PyNothing")


def absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, NAME, None)


def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, NAME, raising=False)
    monkeypatch.setattr(sys, "meta_path", [Broken(), *sys.meta_path])


def other(monkeypatch: pytest.MonkeyPatch, **names: Any) -> None:
    engine = types.ModuleType(NAME)
    vars(engine).update(names)
    monkeypatch.setitem(sys.modules, NAME, engine)
    monkeypatch.setattr(kafkawire, "_native", engine, raising=False)


def without_interface(monkeypatch: pytest.MonkeyPatch) -> None:
    """Built from sources that had no such constant yet."""
    other(monkeypatch)


def of_another_interface(monkeypatch: pytest.MonkeyPatch) -> None:
    other(monkeypatch, INTERFACE=b"class Codec: ...\n")


def of_other_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    stub = Path(kafkawire.__file__).with_name("_native.pyi").read_bytes()
    other(monkeypatch, INTERFACE=stub, LIMITS=b"MAX_STRING = 5\n")


#: An engine that cannot be had, and why not.
ENGINES: list[tuple[Callable[[pytest.MonkeyPatch], None], str]] = [
    (absent, "is not installed"),
    (broken, "cannot be loaded: undefined symbol: PyNothing"),
    (without_interface, OTHER_SOURCES),
    (of_another_interface, OTHER_SOURCES),
    (of_other_limits, OTHER_SOURCES),
]


@pytest.mark.parametrize(("engine", "reason"), ENGINES)
def test_an_engine_that_is_asked_for_and_cannot_be_had_is_an_error(
    engine: Callable[[pytest.MonkeyPatch], None], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine(monkeypatch)
    with pytest.raises(BackendError) as caught:
        backend.load("native")
    assert str(caught.value) == f"KAFKAWIRE_BACKEND=native, but the native engine {reason}"


@pytest.mark.parametrize(("engine", "reason"), ENGINES)
@pytest.mark.parametrize("wanted", [None, "", "python"])
def test_a_broken_engine_that_was_not_requested_is_a_warning(
    engine: Callable[[pytest.MonkeyPatch], None], reason: str, wanted: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine(monkeypatch)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        assert backend.load(wanted) is None
    expected = [f"the native engine of kafkawire {reason}; pure Python runs"]
    assert [str(one.message) for one in warned] == ([] if engine is absent or wanted == "python" else expected)
    assert all(one.category is RuntimeWarning for one in warned)


@pytest.mark.skipif(not INSTALLED, reason="the native engine is not installed")
@pytest.mark.parametrize("wanted", [None, "", "native", "python"])
def test_the_engine_is_had_unless_python_is_wanted(wanted: str | None) -> None:
    engine = backend.load(wanted)
    assert (engine and engine.__name__) == (None if wanted == "python" else NAME)


def test_an_engine_without_a_stub_beside_it_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    without_interface(monkeypatch)  # as a wheel has it, whose engine cannot be of other sources
    monkeypatch.setattr(backend.os.path, "dirname", lambda path: "/nowhere")
    assert backend.load("native") is sys.modules[NAME]


@pytest.mark.parametrize("wanted", ["rust", "Python", "native,python"])
def test_an_unknown_engine_is_refused(wanted: str) -> None:
    with pytest.raises(BackendError) as caught:
        backend.load(wanted)
    assert str(caught.value) == f"KAFKAWIRE_BACKEND={wanted!r} is neither 'python' nor 'native'"


@pytest.mark.skipif(backend.native is None, reason="the native engine does not run")
def test_the_engine_exports_its_interface_number() -> None:
    stub = Path(kafkawire.__file__).with_name("_native.pyi")
    assert backend.native is not None
    assert b"class Codec" in backend.native.INTERFACE
    assert not stub.exists() or stub.read_bytes() == backend.native.INTERFACE


def test_the_engine_that_runs_is_the_one_named() -> None:
    wanted = os.environ.get("KAFKAWIRE_BACKEND") or ("native" if INSTALLED else "python")
    assert kafkawire.backend == backend.backend == wanted
    assert (backend.native is None) == (wanted == "python")
    engine = kafkawire.messages.EndTxnMarker.codec.engine
    assert type(engine).__module__ == ("kafkawire.wire.generated" if wanted == "python" else "kafkawire._native")


# A process of its own ------------------------------------------------------------------------------------------------

DECODE = "kafkawire.messages.EndTxnMarker.decode(bytes(4), 0)"


def python(code: str, wanted: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"KAFKAWIRE_BACKEND": wanted}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=60)


@pytest.mark.slow
def test_python_decodes_where_no_engine_is() -> None:
    code = f"import sys; sys.modules['{NAME}'] = None; import kafkawire; print(kafkawire.backend, {DECODE})"
    done = python(code, "")
    assert (done.returncode, done.stdout, done.stderr) == (0, "python EndTxnMarker()\n", "")


@pytest.mark.slow
@pytest.mark.parametrize("use", ["kafkawire.backend", DECODE])
def test_an_unknown_backend_is_an_error_at_the_first_use(use: str) -> None:
    done = python(f"import kafkawire; print({use})", "rust")
    assert (done.returncode, done.stdout) == (1, "")
    assert "BackendError: KAFKAWIRE_BACKEND='rust' is neither 'python' nor 'native'" in done.stderr
