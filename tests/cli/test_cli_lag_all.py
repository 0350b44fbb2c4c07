"""`lag` without `--group`: the rows are those of each group by its name, and what could not be read is named."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from kafkawire import logdir
from kafkawire.messages import (
    DescribeAclsRequest,
    DescribeAclsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeShareGroupOffsetsRequest,
    ListGroupsRequest,
    ListGroupsResponse,
    OffsetCommitKey,
    OffsetCommitValue,
    OffsetFetchRequest,
    OffsetFetchResponse,
    consumer_group_describe_response,
    share_group_describe_response,
    streams_group_describe_response,
)
from kafkawire.messages.list_groups_response import ListedGroup
from kafkawire.offsets import group_records, group_view
from kafkawire.offsets.group_records import GroupLog, group_of
from kafkawire.offsets.leading_replica import LeadingReplicas
from kafkawire.records import Record, build
from tests.cli.runner import Result, Run
from tests.client.group_script import KINDS, NOT_FOUND, GroupBroker, assigned, classic, named, share_standing
from tests.client.group_script import group_of as described
from tests.client.partition_script import START, in_thread
from tests.recorded_clusters import CLUSTERS, Copy

OFFSETS = group_view.CONSUMER_OFFSETS


def rows_of(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.text.splitlines()]


# Copies ---------------------------------------------------------------------------------------------------------------


def names_in(path: Path) -> list[str]:
    """The groups of which any copy has a record."""
    copies = [one for one in logdir.open(path).partitions if one.topic == OFFSETS]
    return sorted({group_of(record.key) or "" for one in copies for record in GroupLog(one).records()} - {""})


@pytest.mark.slow
@pytest.mark.parametrize("cluster", CLUSTERS)
def test_rows_of_copies_are_those_of_each_group_by_its_name(cluster: str, run: Run) -> None:
    path = Copy(cluster, "stopped").path
    names = names_in(path)
    assert len(names) >= 2
    by_name = [rows_of(run("lag", path, "--group", name, "--format", "jsonl")) for name in names]
    result = run("lag", path, "--format", "jsonl")
    assert rows_of(result) == [row for found in by_name for row in found]
    assert len(rows_of(result)) >= 3
    # Without the metadata log nobody knows whether all partitions of `__consumer_offsets` are here.
    unknown = "warning: how many partitions __consumer_offsets has is not known" in result.err
    assert (result.code, unknown) == ((4, True) if cluster == "cluster-zookeeper" else (0, False))
    only = run("lag", path, "--topic", "nothing", "--format", "jsonl")
    assert only.out == b""


@pytest.mark.slow
def test_each_partition_of_offsets_is_read_once(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    class Counted(GroupLog):
        def __init__(self, partition: Any) -> None:
            read.append(partition.partition)
            super().__init__(partition)

    monkeypatch.setattr(group_records, "GroupLog", Counted)
    assert run("lag", Copy("cluster-three", "stopped").path, "--format", "jsonl").code == 0
    assert read == list(range(5))


@pytest.mark.slow
def test_partition_of_offsets_that_is_not_here_is_named(run: Run, tmp_path: Path) -> None:
    whole = Copy("cluster-standalone", "stopped").path
    complete = rows_of(run("lag", whole, "--format", "jsonl"))
    for number in range(5):
        copies = tmp_path / str(number)
        shutil.copytree(whole, copies, ignore=shutil.ignore_patterns(f"{OFFSETS}-{number}"))
        result = run("lag", copies, "--format", "jsonl")
        assert f"warning: {OFFSETS}-{number}, which keeps offsets of groups, is not here" in result.err
        left = rows_of(result)
        assert left == [row for row in complete if row in left]
        assert result.code == (4 if left else 1)


def write(folder: Path, *records: tuple[str, int | None]) -> Path:
    """A partition of `__consumer_offsets`: commits of groups in orders-0; None is a tombstone."""
    (folder / f"{OFFSETS}-0").mkdir(parents=True)
    data = build(
        (
            Record(
                key=b"\0\1" + OffsetCommitKey(name, "orders", 0).encode(version=0),
                value=None if offset is None else OffsetCommitValue(offset=offset).encode_prefixed(version=3),
                timestamp=1,
            )
            for name, offset in records
        ),
        base_offset=0,
    )
    (folder / f"{OFFSETS}-0" / f"{0:020}.log").write_bytes(data)
    return folder


def test_groups_that_have_ended_have_no_row(run: Run, tmp_path: Path) -> None:
    """Tombstones of their offsets are in the log. A group that commits again is there again."""
    path = write(
        tmp_path, ("b", 1), ("ended", 2), ("ended", None), ("a", 3), ("again", 4), ("again", None), ("again", 5)
    )
    result = run("lag", path, "--format", "jsonl")
    assert [(row["group"], row["committed_offset"]) for row in rows_of(result)] == [("a", 3), ("again", 5), ("b", 1)]
    views, _ = group_view.group_views(LeadingReplicas(logdir.open(path)))
    assert [one.group for one in views] == ["a", "again", "b"]
    assert views == [group_view.group_view(LeadingReplicas(logdir.open(path)), one.group) for one in views]


def test_damage_of_offsets_is_named_with_groups_and_without(run: Run, tmp_path: Path) -> None:
    path = write(tmp_path, ("a", 1), ("b", 2))
    file = path / f"{OFFSETS}-0" / f"{0:020}.log"
    whole = file.read_bytes()
    file.write_bytes(whole + whole[:-1] + b"\xff" + whole)
    result = run("lag", path, "--format", "jsonl")
    rows = rows_of(result)
    assert [row["group"] for row in rows] == ["a", "b"]
    assert all(any(str(file) in problem for problem in row["problems"]) for row in rows)
    assert f"warning: {file}: at byte {len(whole)}" in result.err
    file.write_bytes(whole[:-1] + b"\xff")
    result = run("lag", path, "--format", "jsonl")
    assert (result.code, result.out) == (1, b"")
    assert f"warning: {file}: at byte 0" in result.err


# A cluster ------------------------------------------------------------------------------------------------------------


class Groups(GroupBroker):
    """Coordinates groups of all kinds; `gone` has ended since it was listed, `secret` may not be described."""

    def __init__(self) -> None:
        super().__init__()
        self.versions |= {16: (0, 5), 35: (1, 4), 90: (0, 1)}
        topology = streams_group_describe_response.Topology(
            subtopologies=(streams_group_describe_response.Subtopology(subtopology_id="0", source_topics=("orders",)),)
        )
        tasks = streams_group_describe_response.TaskIds(subtopology_id="0", partitions=(1,))
        self.groups: dict[str, tuple[str, Any]] = {
            "streaming": (
                "streams",
                described(
                    "streams",
                    streams_group_describe_response.Member(
                        member_id="m",
                        assignment=streams_group_describe_response.Assignment(active_tasks=(tasks,)),
                    ),
                    topology=topology,
                ),
            ),
            "shared": (
                "share",
                described(
                    "share",
                    share_group_describe_response.Member(
                        member_id="m", assignment=named(share_group_describe_response, 0)
                    ),
                ),
            ),
            "gone": ("classic", None),
            "classical": ("classic", classic(assigned(0, 1))),
            "consuming": (
                "consumer",
                described(
                    "consumer",
                    consumer_group_describe_response.Member(
                        member_id="m",
                        assignment=named(consumer_group_describe_response, 0),
                        target_assignment=named(consumer_group_describe_response, 0),
                    ),
                ),
            ),
            "secret": ("classic", classic(error_code=30)),
            "empty": ("classic", classic(state="Empty")),
        }
        self.offsets = {"classical": START, "consuming": 1}
        for kind, (_, _, request, _, _) in KINDS.items():
            self.on[request] = lambda body, kind=kind: self.describe(kind, body)
        self.on[ListGroupsRequest] = lambda _: ListGroupsResponse(
            groups=tuple(ListedGroup(group_id=name, group_type=kind) for name, (kind, _) in self.groups.items())
        )
        self.on[DescribeShareGroupOffsetsRequest] = self.describe_share_offsets

    def describe(self, kind: str, body: Any) -> Any:
        *_, response, module = KINDS[kind]
        (name,) = body.groups if kind == "classic" else body.group_ids
        of, group = self.groups[name]
        if of != kind or group is None:
            return response(groups=(module.DescribedGroup(group_id=name, error_code=NOT_FOUND),))
        return response(groups=(replace(group, group_id=name),))

    def fetch_offsets(self, request: OffsetFetchRequest) -> OffsetFetchResponse:
        if request.group_id == "secret":
            return OffsetFetchResponse(error_code=30)
        offset = self.offsets.get(request.group_id)
        self.committed = {} if offset is None else {0: offset}
        return super().fetch_offsets(request)

    def describe_share_offsets(self, body: DescribeShareGroupOffsetsRequest) -> Any:
        answer = share_standing(1)
        return replace(answer, groups=(replace(answer.groups[0], group_id=body.groups[0].group_id),))


def lag(run: Run, broker: GroupBroker, *args: object) -> Result:
    return run("lag", "--bootstrap-server", broker.address, "--format", "jsonl", *args)


def without_clock(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The script's transaction begins anew whenever it is asked about."""
    held = [[text.split(" since ")[0] for text in row["held_by"]] for row in rows]
    return [row | {"as_of": None, "age_ms": None, "held_by": one} for row, one in zip(rows, held, strict=True)]


def test_rows_of_a_cluster_are_those_of_each_group_by_its_name(run: Run) -> None:
    """A group that has ended since it was listed, and one that may not be described, are named."""
    broker = Groups()
    with in_thread(broker):
        result = lag(run, broker)
        by_name = [lag(run, broker, "--group", name) for name in sorted(broker.groups)]
    rows = rows_of(result)
    assert without_clock(rows) == without_clock([row for one in by_name for row in rows_of(one)])
    assert [(row["group"], row["partition"]) for row in rows] == [
        ("classical", 0), ("classical", 1), ("consuming", 0), ("shared", 0), ("streaming", 1),
    ]  # fmt: skip
    refused = [name for name, one in zip(sorted(broker.groups), by_name, strict=True) if one.code == 1]
    assert refused == ["gone", "secret"]
    warnings = [line for line in result.err.splitlines() if line.startswith("warning: ")]
    assert warnings == [
        "warning: group gone does not exist: it has no members and no committed offsets",
        "warning: offsets of group secret: GROUP_AUTHORIZATION_FAILED: the principal needs Describe on group secret",
    ]
    assert result.code == 4


def test_broker_that_does_not_list_its_groups_is_named(run: Run) -> None:
    first, second = Groups(), Groups()
    second.node_id, second.groups = 2, {}
    second.on[ListGroupsRequest] = lambda _: ListGroupsResponse(error_code=31)
    first.groups = {"classical": first.groups["classical"]}
    with in_thread(first), in_thread(second):
        first.brokers = second.brokers = {1: first.port, 2: second.port}
        result = lag(run, first)
        assert [row["group"] for row in rows_of(result)] == ["classical"] * 2
        assert (result.code, "warning: groups of broker 2: ListGroups: CLUSTER_AUTHORIZATION_FAILED" in result.err) == (
            4,
            True,
        )
        second.on[ListGroupsRequest] = lambda _: ListGroupsResponse(groups=(ListedGroup(group_id="consuming"),))
        first.groups["consuming"] = Groups().groups["consuming"]
        first.on[ListGroupsRequest] = lambda _: ListGroupsResponse(groups=(ListedGroup(group_id="classical"),))
        result = lag(run, first)
    assert [row["group"] for row in rows_of(result)] == ["classical", "classical", "consuming"]
    assert result.code == 0


@pytest.mark.parametrize(("code", "hidden"), [(0, False), (31, True)])
def test_groups_may_be_hidden_without_describe_on_the_cluster(code: int, hidden: bool, run: Run) -> None:
    """Brokers with an authorizer leave out groups without a sign."""
    broker = Groups()
    broker.groups = {"classical": broker.groups["classical"]}
    broker.on[DescribeAclsRequest] = lambda _: DescribeAclsResponse(error_code=31)
    broker.on[DescribeLogDirsRequest] = lambda _: DescribeLogDirsResponse(error_code=code)
    with in_thread(broker):
        result = lag(run, broker)
    assert len(rows_of(result)) == 2
    named = "groups that the principal may not Describe are not listed: Describe on the cluster would show them"
    assert (result.code, named in result.err) == ((4, True) if hidden else (0, False))


def test_gap_of_a_group_without_rows_is_an_error(run: Run) -> None:
    """Its members are known, its offsets are refused: no row would be an answer that nobody has."""
    broker = Groups()
    broker.groups = {"secret": ("classic", classic(state="Empty"))}
    with in_thread(broker):
        one, every = lag(run, broker, "--group", "secret"), lag(run, broker)
    for result in (one, every):
        assert (result.code, result.out) == (1, b"")
        assert "what group 'secret' has committed could not be read" in result.err
