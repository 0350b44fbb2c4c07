"""Measures the processor time of tests, and writes tests/lengthy.txt (a pytest plugin; `make lengthy` names it)."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Generator, Mapping, Sequence

import pytest

from tests import distribution

#: Seconds that a test takes on average, over its parameters.
LIMIT_S = 0.02
_PROPERTY = "processor_s"

_taken: dict[str, list[float]] = defaultdict(list)


def _spent() -> float:
    """Processor seconds of this process and of those that it has waited for."""
    return time.process_time() + sum(os.times()[2:4])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    before = _spent()
    try:
        return (yield)
    finally:
        item.user_properties.append((_PROPERTY, _spent() - before))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call":
        _taken[report.nodeid.partition("[")[0]] += [
            float(str(value)) for name, value in report.user_properties if name == _PROPERTY
        ]


def pytest_sessionfinish(session: pytest.Session) -> None:
    if not hasattr(session.config, "workerinput") and _taken:
        distribution.LENGTHY.write_text("".join(f"{name}\n" for name in names(_taken)))


def names(taken: Mapping[str, Sequence[float]]) -> list[str]:
    """The functions whose tests take longer than the limit; a file's name in place of all of its functions.

    Args:
        taken: node id of a function -> seconds of each of its tests.
    """
    functions: dict[str, list[str]] = defaultdict(list)
    for name in taken:
        functions[name.partition("::")[0]].append(name)
    found: list[str] = []
    for file, inside in functions.items():
        long = [name for name in inside if sum(taken[name]) / len(taken[name]) > LIMIT_S]
        found += [file] if len(long) == len(inside) else long
    return sorted(found)
