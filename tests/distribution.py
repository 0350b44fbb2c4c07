"""Which tests share a worker of pytest-xdist, and which begin first (a pytest plugin: tests/conftest.py names it).

The tests of a file stay on one worker. So do the tests of all files that share what takes seconds to start. These begin
first, then the longest files, then others with a test that is marked `slow`: no worker is left alone with them at the
end.

`slow` stands on the tests themselves (`pytestmark`, or a decorator). A test whose fixture starts another program is
slow without that mark. Others that were measured to take more than 20 ms of processor time (`make lengthy`) are
`lengthy`: tests/lengthy.txt names their functions. `make test-quick` leaves out both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import pytest

#: What is started once a worker -> the files that use it, as prefixes of their paths.
SHARED = {
    # These start Spark for themselves.
    "lake": ("tests/spark/test_spark_lake.py",),
    "clusters": ("tests/spark/test_spark_on_clusters.py",),
    # Two sessions of Spark: one alone would be busy when all other workers have ended.
    "spark jobs": (
        "tests/cli/test_cli_audit.py",
        "tests/spark/test_spark_audit",
        "tests/spark/test_spark_examples.py",
        "tests/spark/test_spark_fleet_listing.py",
        "tests/spark/test_spark_jobs.py",
        "tests/spark/test_spark_lake_outcomes.py",
        "tests/spark/test_spark_own_message.py",
        "tests/spark/test_spark_replica_listing.py",
        "tests/spark/test_spark_transaction_table.py",
    ),
    "spark": ("tests/spark/",),
    "broker": (
        "tests/cli/test_cli_txn.py",
        "tests/cli/test_cli_txn_commit.py",
        "tests/cli/test_cli_txn_stock.py",
        "tests/cli/test_cli_txn_watch.py",
        "tests/cli/test_cli_explain_cluster.py",
        "tests/cli/test_cli_explain_history_broker.py",
        "tests/cli/test_cli_why_broker.py",
        "tests/cli/test_cli_why_symptoms.py",
        "tests/cli/test_cli_witness_broker.py",
        "tests/client/test_client_ending_broker.py",
        "tests/client/test_client_blocked_group.py",
        "tests/client/test_client_causes.py",
        "tests/client/test_client_impact_reading.py",
        "tests/client/test_client_wire_audit.py",
        "tests/test_example_programs.py",
        "tests/tools/test_bench_scan.py",
        "tests/tools/test_bench_transactions.py",
        "tests/tools/test_broker.py",
        "tests/tools/test_examples.py",
        "tests/tools/test_soak.py",
        "tests/transactions/test_coordinator_machine_broker.py",
    ),
    "three voters": (
        "tests/cli/test_cli_printed_live.py",
        "tests/cli/test_cli_txn_lost_brokers.py",
        "tests/client/test_client_three_brokers.py",
    ),
    "secure broker": (
        "tests/client/test_client_broker.py",
        "tests/client/test_client_hanging_search.py",
        "tests/client/test_client_principals.py",
        "tests/client/test_client_scan.py",
    ),
}

#: Files whose tests take 20 s of processor time or more, the longest first: they begin right after those.
LONG = (
    "tests/test_wheel.py",
    "tests/client/test_client_lease.py",
    "tests/cli/test_cli_printed_run.py",
    "tests/cli/test_cli_hostile_names.py",
    "tests/docs/test_docs_site.py",
    "tests/tools/test_bench.py",
    "tests/cli/test_cli_clusters_dump.py",
)

#: Fixtures that start another program.
PROGRAMS = frozenset({"start_cluster", "spark", "cluster", "remote", "java", "newest", "chromium"})


#: Functions of tests, and files in which all that are not slow are so.
LENGTHY = Path(__file__).with_name("lengthy.txt")

_SLOW_MARKS = ("slow", "broker", "spark", "deployment")
#: A whole file of slow tests.
_SLOW_FILE = re.compile(rf"^pytestmark = .*\bmark\.({'|'.join(_SLOW_MARKS)})\b", re.MULTILINE)


def group_of(path: str) -> str:
    """What the tests of a file share, or else the path of the file itself, which is relative to the checkout."""
    return next((name for name, prefixes in SHARED.items() if path.startswith(prefixes)), path)


def _is_slow(item: Any) -> bool:
    return not PROGRAMS.isdisjoint(item.fixturenames) or any(item.get_closest_marker(name) for name in _SLOW_MARKS)


@cache
def lengthy() -> frozenset[str]:
    """The lines of tests/lengthy.txt."""
    return frozenset(LENGTHY.read_text().splitlines())


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A file of which `make test-quick` takes no test is not even imported, which would take half of its time."""
    if not collection_path.name.startswith("test_"):
        return None
    given = config.option.markexpr
    slow = "not slow" in given and _SLOW_FILE.search(collection_path.read_text())
    left_out = slow or ("not lengthy" in given and collection_path.relative_to(config.rootpath).as_posix() in lengthy())
    return True if left_out else None


class Shared:
    """What tests of a group share: each is started once, all end with the group."""

    def __init__(self) -> None:
        self._started: dict[str, Any] = {}
        self._stack = ExitStack()

    def start(self, name: str, manager: Callable[[], AbstractContextManager[Any]]) -> Any:
        """What the manager of that name gives: the same until `close`."""
        if name not in self._started:
            self._started[name] = self._stack.enter_context(manager())
        return self._started[name]

    def close(self) -> None:
        self._started.clear()
        self._stack.close()


_SHARED_KEY = pytest.StashKey[Shared]()


@pytest.fixture(scope="session")
def shared(request: pytest.FixtureRequest) -> Iterator[Shared]:
    """Ends when a worker goes on to the next group (an idle broker takes a percent of a processor), else with the
    session. Fixtures that use it have the scope of a module: they start anew after that."""
    of_session = request.config.stash[_SHARED_KEY] = Shared()
    yield of_session
    of_session.close()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: Any, nextitem: Any) -> None:
    of_session = item.config.stash.get(_SHARED_KEY, None)
    if of_session is not None and nextitem is not None and hasattr(item.config, "workerinput"):
        group, following = (group_of(one.nodeid.partition("::")[0]) for one in (item, nextitem))
        if group != following:
            of_session.close()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[Any]) -> None:
    slow_files = set()
    alone: set[str] = set()
    for item in items:
        path = item.nodeid.partition("::")[0]
        if "shared" in item.fixturenames and group_of(path) == path:
            alone.add(path)
        if _is_slow(item):
            item.add_marker("slow")
            slow_files.add(item.path)
        elif not lengthy().isdisjoint((path, item.nodeid.partition("[")[0])):
            item.add_marker("lengthy")
    if alone:
        raise pytest.UsageError(f"{', '.join(sorted(alone))}: share a broker, and are in no group of {__name__}.SHARED")
    if hasattr(config, "workerinput"):
        shared = list(SHARED)
        places = {path: group_of(path) for path in {item.nodeid.partition("::")[0] for item in items}}

        def place(item: Any) -> int:
            group = places[item.nodeid.partition("::")[0]]
            if group in SHARED:
                return shared.index(group)
            if group in LONG:
                return len(shared) + LONG.index(group)
            return len(shared) + len(LONG) + (item.path not in slow_files)

        items.sort(key=place)


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
