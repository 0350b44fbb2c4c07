"""What runs where, and what `make test-quick` leaves out (a pytest plugin: tests/conftest.py names it).

With several workers (`pytest -n`) the tests of a file stay on one of them, and so do those of all files that share what
takes seconds to start: a Spark session, a broker. What takes longest begins first, so that no worker is left alone with
it at the end.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]

#: What is started once a worker -> how a file that uses it is told.
SHARED = {
    "spark": re.compile(r"pytest\.mark\.spark\b"),
    "secure broker": re.compile(r"\b(secure|kafka_3_9): "),
    "broker": re.compile(r"\bbroker: Cluster\b|getfixturevalue\(\"broker\"\)"),
}
#: What takes longest, the longest first.
FIRST = (
    "spark",
    "broker",
    "tests/transactions/test_replay_broker.py",
    "secure broker",
    "tests/wire/test_columns.py",
    "tests/wire/test_columns_inputs.py",
    "tests/test_wheel.py",
    "tests/tools/test_bench.py",
    "tests/properties/test_mutations.py",
    "tests/properties/test_round_trips.py",
    "tests/client/test_client_three_brokers.py",
    "tests/wire/test_native.py",
    "tests/wire/test_hostile.py",
    "tests/wire/test_json_text.py",
    "tests/records/test_records_columns.py",
    "tests/capture/test_capture_against_broker.py",
)

#: How `make test-quick` asks for the others (pytest -m).
QUICK = "not slow"
#: Fixtures that start another program.
PROGRAMS = {"start_cluster", "spark", "cluster", "remote", "java", "newest", "chromium"}
#: Folders, files or tests (how their ids begin) that build, start other programs, or try very many values.
LONG = (
    "tests/capture/test_capture_against_tshark.py",
    "tests/cli/test_cli_errors.py",
    "tests/cli/test_cli_hostile_names.py",
    "tests/cli/test_cli_process.py",
    "tests/cli/test_cli_schema_import.py",
    "tests/codegen/test_generate.py",
    "tests/conformance/",
    "tests/docs/test_docs_site.py",
    "tests/logdir/test_logdir_against_kafka.py",
    "tests/logdir/test_logdir_decoders.py",
    "tests/logdir/test_logdir_verify.py::test_sanity_is_what_brokers_look_at",
    "tests/properties/",
    "tests/records/test_records_columns.py",
    "tests/references/",
    "tests/test_wheel.py",
    "tests/tools/test_bench",
    "tests/tools/test_import_",
    "tests/transactions/test_replay_properties.py",
    "tests/tools/test_maven.py",
    "tests/wire/test_columns",
    "tests/wire/test_hostile.py",
    "tests/wire/test_json_text.py",
    "tests/wire/test_native.py",
    "tests/wireshark/",
)


@cache
def group_of(path: str) -> str:
    """What a test file shares with others, or else its own path, which is relative to the checkout."""
    text = (ROOT / path).read_text("utf-8")
    return next((name for name, sign in SHARED.items() if sign.search(text)), path)


def place_of(group: str) -> int:
    """A group's place in the order in which groups begin."""
    return FIRST.index(group) if group in FIRST else len(FIRST)


def is_slow(item: Any) -> bool:
    return (
        item.nodeid.startswith(LONG)
        or not PROGRAMS.isdisjoint(item.fixturenames)
        or any(item.get_closest_marker(name) for name in ("broker", "spark"))
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Files of which every test is left out are not even imported."""
    if config.option.markexpr != QUICK:
        return None
    path = collection_path.relative_to(ROOT).as_posix() if collection_path.is_relative_to(ROOT) else ""
    return True if path.startswith(LONG) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[Any]) -> None:
    for item in items:
        if is_slow(item):
            item.add_marker("slow")
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: place_of(group_of(item.nodeid.partition("::")[0])))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    if config.getoption("dist") != "load":
        return None  # another way was asked for
    from xdist.scheduler.loadscope import LoadScopeScheduling

    class GroupScheduling(LoadScopeScheduling):
        """A group a worker, in the order of the collection."""

        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid.partition("::")[0])

    config.option.loadscopereorder = False
    return GroupScheduling(config, log)
