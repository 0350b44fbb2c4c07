"""`on_first_use`: the names of a package whose modules are imported when a name is used first."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from kafkawire.errors import MissingExtraError


def on_first_use(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """A package's `__getattr__`. It keeps what it has found in the package.

    Args:
        package: its name. modules: of the package, each with the names that it defines, separated by blanks.

    Raises:
        MissingExtraError: by the function: the module needs NumPy, which is not installed.
    """
    homes = {name: module for module, names in modules.items() for name in names.split()}

    def attribute(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            value = getattr(import_module(f"{package}.{homes[name]}"), name)
        except ModuleNotFoundError as error:
            if error.name != "numpy":
                raise
            raise MissingExtraError(f"{package}.{name}", "arrow") from None
        setattr(sys.modules[package], name, value)
        return value

    return attribute
