"""What all tests share: how hard Hypothesis tries.

`HYPOTHESIS_PROFILE` chooses: `ci` (the same examples every time), `quick` (the same, but few: for `make
test-quick`), `mutants` (as few, and none is made smaller: for tools/mutation, which asks only whether one fails), `dev`
(fresh ones, the default), `thorough` (many).
Tests that run over every message take a share of the profile's `max_examples` for each version.
"""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator, Iterator

import pytest
from hypothesis import HealthCheck, Phase, settings

os.environ.pop("COLUMNS", None)  # how wide tables are is up to each test

#: What runs where; fixtures of a real Kafka cluster; a quick start for Spark.
pytest_plugins = ["tests.distribution", "tests.broker_fixture", "tests.spark.class_archive"]

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]

settings.register_profile(
    "ci", max_examples=60, derandomize=True, database=None, deadline=None, suppress_health_check=_SLOW
)
settings.register_profile(
    "quick", max_examples=15, derandomize=True, database=None, deadline=None, suppress_health_check=_SLOW
)
settings.register_profile(
    "mutants",
    settings.get_profile("quick"),
    phases=(Phase.explicit, Phase.generate),
    report_multiple_bugs=False,
)
settings.register_profile("dev", max_examples=60, deadline=None, suppress_health_check=_SLOW)
settings.register_profile("thorough", max_examples=600, deadline=None, suppress_health_check=_SLOW)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev"))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Ten thousand collected tests, and the modules they import, stay: no garbage collection looks at them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.fixture
def terminal_signals() -> Iterator[None]:
    """SIGINT and SIGHUP as in a terminal: children that ignore them (background jobs, nohup) are not interrupted."""
    handlers = {"SIGINT": signal.default_int_handler, "SIGHUP": signal.SIG_DFL}
    present = {getattr(signal, name): handler for name, handler in handlers.items() if hasattr(signal, name)}
    before = {number: signal.signal(number, handler) for number, handler in present.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
