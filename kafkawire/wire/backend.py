"""The choice of the engine that executes layouts: `native` where it is installed, otherwise `python`.

`KAFKAWIRE_BACKEND=python|native` chooses; an engine that is not installed is then an error, never a silent fallback.
An engine that is installed and cannot be loaded (built for another Python or from other sources, a missing library) is
an error when it was chosen and a `RuntimeWarning` otherwise: the package works without it, and the warning explains
why it is slow.
"""

from __future__ import annotations

import os
import warnings
from types import ModuleType

from kafkawire.errors import BackendError


def load(wanted: str | None) -> ModuleType | None:
    """The native engine for a value of `KAFKAWIRE_BACKEND`, or None for Python (no value: native where installed)."""
    if wanted not in (None, "", "python", "native"):
        raise BackendError(f"KAFKAWIRE_BACKEND={wanted!r} is neither 'python' nor 'native'")
    if wanted == "python":
        return None
    try:
        return _engine()
    except ImportError as error:
        absent = isinstance(error, ModuleNotFoundError) and error.name == "kafkawire._native"
        reason = "is not installed" if absent else f"cannot be loaded: {error}"
        if wanted:
            raise BackendError(f"KAFKAWIRE_BACKEND=native, but the native engine {reason}") from error
        if not absent:
            warnings.warn(f"the native engine of kafkawire {reason}; pure Python runs", RuntimeWarning, stacklevel=2)
        return None


def _engine() -> ModuleType:
    """The engine that is installed. ImportError where it was built before its stub or the limits were changed; the stub
    is there in a checkout only."""
    import kafkawire._native as module

    folder = os.path.dirname(__file__)
    for built_from, path in (("INTERFACE", "../_native.pyi"), ("LIMITS", "limits.py")):
        try:
            with open(os.path.join(folder, path), "rb") as file:
                source = file.read()
        except OSError:
            continue
        if getattr(module, built_from, None) != source:
            raise ImportError("it was built from other sources than these; `pip install -e .` builds it again")
    return module


#: `kafkawire._native`, or None where pure Python runs.
native = load(os.environ.get("KAFKAWIRE_BACKEND"))
backend = "python" if native is None else "native"
