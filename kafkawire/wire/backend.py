"""Which engine runs the layouts: `native` where it is installed, else `python`.

`KAFKAWIRE_BACKEND=python|native` chooses; asking for an engine that is not there is an error, never a silent fallback.
"""

from __future__ import annotations

import os
from importlib.util import find_spec

from kafkawire.errors import BackendError

#: The engines that are installed, the fastest last.
ENGINES = ("python", "native") if find_spec("kafkawire._native") else ("python",)


def choose(wanted: str | None) -> str:
    """The engine for a value of `KAFKAWIRE_BACKEND` (None or empty: the fastest that is installed)."""
    if not wanted:
        return ENGINES[-1]
    if wanted in ENGINES:
        return wanted
    if wanted == "native":
        raise BackendError("KAFKAWIRE_BACKEND=native, but the native engine is not installed")
    raise BackendError(f"KAFKAWIRE_BACKEND={wanted!r} is neither 'python' nor 'native'")


backend = choose(os.environ.get("KAFKAWIRE_BACKEND"))
