"""One test of many values, for checks that are cheaper than a test item for each value."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import pytest


def for_each(values: Iterable[Any]) -> Callable[[Callable[[Any], None]], Callable[[], None]]:
    """Make one test of a test with one argument: it checks all values, and its error names those that fail.

    Args:
        values: As `pytest.mark.parametrize` takes them, in the order in which they are checked.
    """

    def decorate(test: Callable[[Any], None]) -> Callable[[], None]:
        @wraps(test)
        def check_all() -> None:
            failures: list[BaseException] = []
            for value in values:
                try:
                    test(value)
                except (Exception, pytest.fail.Exception) as error:
                    error.add_note(f"with {value!r:.200}")
                    failures.append(error)
            if failures:
                raise BaseExceptionGroup(f"{test.__name__}: failed values", failures)

        check_all.__signature__ = inspect.Signature()  # type: ignore[attr-defined]
        return check_all

    return decorate
