"""`kafkawire audit` on less than a cluster, and on files of two moments: no alarm for what ends, and no all-clear.

In each cluster five transactions hang, and one lives. All others ended, though a copy may not show it.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.runner import Run
from tests.recorded_clusters import ALL, CLUSTERS, Copy

pytestmark = pytest.mark.slow

_COORDINATORS = "__transaction_state-"


def nodes(copy: Copy) -> list[str]:
    """The brokers, where there are several."""
    found = sorted(node.name for node in copy.path.iterdir() if any(node.rglob("orders-0")))
    return found if len(found) > 1 else []


def judge(run: Run, path: Path, copy: Copy) -> None:
    """Asserts what holds of every part and mixture of a cluster's files."""
    done = run("audit", path, "--jobs", 1, "--format", "json", *copy.options)
    assert done.code in (3, 4, 5)
    answer = json.loads(done.text)
    hanging = {
        (one["topic"], one["partition"], one["producer_id"], one["start_offset"])
        for one in answer["findings"]
        if one["verdict"] == "hanging"
    }
    assert hanging <= set(copy.left_open("hanging"))
    for violation in answer["violations"]:
        where = violation["topic"], violation["partition"], violation["producer_id"], violation["offset"]
        assert where in copy.left_open("hanging"), violation
    for finding in answer["findings"]:
        assert finding["verdict"] != "unknown" or not all(one["holds"] for one in finding["premises"])


@pytest.mark.parametrize(
    ("copy", "node"), [pytest.param(copy, node, id=f"{copy}-{node}") for copy in ALL for node in nodes(copy)]
)
def test_one_broker_of_several(run: Run, copy: Copy, node: str) -> None:
    judge(run, copy.path / node, copy)


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize(
    ("data", "coordinators"),
    [("forward", "stopped"), ("stopped", "forward"), ("backward", "killed"), ("killed", "backward")],
)
def test_data_of_one_moment_and_coordinators_of_another(
    run: Run, cluster: str, data: str, coordinators: str, tmp_path: Path
) -> None:
    of_data, of_coordinators = Copy(cluster, data), Copy(cluster, coordinators)
    ignored = shutil.ignore_patterns(f"{_COORDINATORS}*", ".kafka_cleanshutdown")
    shutil.copytree(of_data.path, tmp_path / "mixed", ignore=ignored)
    for folder in of_coordinators.path.rglob(f"{_COORDINATORS}*"):
        shutil.copytree(folder, tmp_path / "mixed" / folder.relative_to(of_coordinators.path))
    judge(run, tmp_path / "mixed", of_data)
