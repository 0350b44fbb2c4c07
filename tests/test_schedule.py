"""Which tests share a worker, which begin first and which are slow (tests/schedule.py)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests import schedule
from tests.schedule import FIRST, LONG, ROOT, SHARED, group_of, is_slow, place_of


@pytest.mark.parametrize(
    ("path", "group"),
    [
        ("tests/spark/test_spark_segments.py", "spark"),
        ("tests/spark/test_spark_topics.py", "spark"),  # it needs a broker, too, which starts faster
        ("tests/client/test_client_hanging.py", "secure broker"),
        ("tests/cli/test_cli_txn.py", "broker"),
        ("tests/test_schedule.py", "tests/test_schedule.py"),
    ],
)
def test_files_that_share_a_start_share_a_worker(path: str, group: str) -> None:
    assert group_of(path) == group


def test_what_takes_longest_begins_first() -> None:
    assert [place_of(group) for group in ("spark", "broker", "tests/x.py")] == [0, 1, len(FIRST)]


def test_what_begins_first_is_there() -> None:
    assert [group for group in FIRST if group not in SHARED and not (ROOT / group).is_file()] == []


@pytest.mark.parametrize("start", LONG)
def test_what_takes_long_is_there(start: str) -> None:
    path, _, test = start.partition("::")
    files = list(ROOT.glob(f"{path}*"))
    assert files
    assert not test or f"def {test}(" in files[0].read_text("utf-8")


@pytest.mark.parametrize(
    ("path", "fixtures", "mark", "slow"),
    [
        ("tests/frames/test_x.py", [], None, False),
        ("tests/frames/test_x.py", ["tmp_path", "start_cluster"], None, True),
        ("tests/frames/test_x.py", [], "spark", True),
        ("tests/wireshark/test_x.py", [], None, True),
    ],
)
def test_slow(path: str, fixtures: list[str], mark: str | None, slow: bool) -> None:
    item = SimpleNamespace(nodeid=f"{path}::test", fixturenames=fixtures, get_closest_marker=lambda name: name == mark)
    assert is_slow(item) is slow


def test_another_way_to_share_out_tests_is_left_alone() -> None:
    config = SimpleNamespace(getoption=lambda name: "worksteal")
    assert schedule.pytest_xdist_make_scheduler(config, None) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("path", "wanted", "ignored"),
    [
        ("tests/wire/test_hostile.py", schedule.QUICK, True),
        ("tests/wire/test_hostile.py", "", None),
        ("tests/wire/test_read_write.py", schedule.QUICK, None),
        ("tests/logdir/test_logdir_verify.py", schedule.QUICK, None),  # some of its tests are slow
        ("tests/properties", schedule.QUICK, None),
        ("tests/properties/test_mutations.py", schedule.QUICK, True),
    ],
)
def test_files_of_slow_tests_are_not_imported(path: str, wanted: str, ignored: bool | None) -> None:
    config: Any = SimpleNamespace(option=SimpleNamespace(markexpr=wanted))
    assert schedule.pytest_ignore_collect(schedule.ROOT / path, config) is ignored
