"""The names that generated packages import. They import no other module of kafkawire.

A package states the interface that it was generated for, and `check_generated` refuses one that this module cannot
serve (docs/stability.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkawire._interface import INTERFACE as INTERFACE
from kafkawire.errors import GeneratedCodeError
from kafkawire.wire.registry import Entry as Entry
from kafkawire.wire.registry import Registry as Registry

if TYPE_CHECKING:
    from kafkawire.wire import classic as classic
    from kafkawire.wire import flexible as flexible
    from kafkawire.wire.codec_names import *  # noqa: F403


def check_generated(package: str, *, compiler: str, interface: tuple[int, int]) -> None:
    """Refuses a generated package that was made for another interface; generated packages call it on import.

    Args:
        package: the name of the package.
        compiler: the version of kafkawire that generated it.
        interface: `INTERFACE` of that version.

    Raises:
        GeneratedCodeError: the major number differs, or the package needs a newer minor one; it says what to do.
    """
    if interface[0] != INTERFACE[0] or interface[1] > INTERFACE[1]:
        raise GeneratedCodeError(package, compiler, interface, INTERFACE)


if not TYPE_CHECKING:  # checkers report names that are not there
    __all__ = ["INTERFACE", "Entry", "Registry", "check_generated"]

    def __getattr__(name: str) -> Any:
        if not name.startswith("_"):  # the import system asks for __path__
            from kafkawire.wire import codec_names

            globals().update((each, value) for each, value in vars(codec_names).items() if each[0].isalpha())
            if name in globals():
                return globals()[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
