"""What hangs may have been committed where an unclean election can have lost its marker: it is unknown then, and not
aborted (4.4.0, three brokers: after such an election `abort --dry-run` offered to hide records that consumers had
read).
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kafkawire.messages import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    FetchRequest,
    FetchResponse,
    MetadataRequest,
    MetadataResponse,
)
from kafkawire.messages.describe_configs_response import DescribeConfigsResourceResult, DescribeConfigsResult
from kafkawire.messages.fetch_response import FetchableTopicResponse, PartitionData
from kafkawire.records import Record, build
from kafkawire.rows import Finding
from kafkawire.transactions.verdict.abort_rules import Refused, permit
from tests.client.answers import scenario
from tests.client.hanging_script import broker, find, preparing
from tests.client.scripted import ScriptedBroker

_DENIED = 29


def elected(
    *, state: str = "CompleteCommit", written: int = 3, leads: int = 7, replicas: int = 2, unclean: str | None = "true"
) -> ScriptedBroker:
    """A broker with an open transaction whose data has one leader epoch, and its partition another.

    Args:
        state: of the transaction's id. `written`: leader epoch of its data, below 0 where it cannot be fetched.
        leads: leader epoch of the partition. `replicas`: of it.
        unclean: unclean.leader.election.enable of the topic; None where it may not be read.
    """
    made = broker()
    made.versions |= {1: (4, 12), 32: (1, 4)}
    made.on |= preparing(state)

    def metadata(request: MetadataRequest) -> MetadataResponse:
        answer, nodes = made.metadata(request), tuple(range(1, replicas + 1))
        return replace(
            answer,
            topics=tuple(
                replace(
                    topic,
                    partitions=tuple(replace(one, leader_epoch=leads, replica_nodes=nodes) for one in topic.partitions),
                )
                for topic in answer.topics
            ),
        )

    def configs(request: DescribeConfigsRequest) -> DescribeConfigsResponse:
        value = DescribeConfigsResourceResult(
            name="unclean.leader.election.enable", value=unclean, config_source=5, documentation=None
        )
        return DescribeConfigsResponse(
            results=tuple(
                DescribeConfigsResult(
                    error_code=_DENIED if unclean is None else 0,
                    resource_type=one.resource_type,
                    resource_name=one.resource_name,
                    configs=(value,) if one.resource_type == 2 and unclean is not None else (),
                )
                for one in request.resources
            )
        )

    def fetch(request: FetchRequest) -> FetchResponse:
        (topic,) = request.topics
        batch = build(
            [Record(value=b"paid")],
            base_offset=40,
            producer_id=7,
            producer_epoch=3,
            base_sequence=0,
            transactional=True,
            partition_leader_epoch=max(written, 0),
        )
        data = PartitionData(
            partition_index=0,
            error_code=_DENIED if written < 0 else 0,
            high_watermark=90,
            records=b"" if written < 0 else batch,
        )
        return FetchResponse(responses=(FetchableTopicResponse(topic=topic.topic, partitions=(data,)),))

    made.on |= {MetadataRequest: metadata, DescribeConfigsRequest: configs, FetchRequest: fetch}
    return made


async def judged(**given: Any) -> Finding:
    (finding,) = (await find(elected(**given))).findings
    return finding


@pytest.mark.parametrize(
    ("given", "doubt"),
    [
        ({}, "Its data is of leader epoch 3, and the leader of 7; unclean.leader.election.enable is true"),
        ({"state": "Empty"}, "Its data is of leader epoch 3"),
        ({"unclean": None}, "unclean.leader.election.enable could not be read"),
        ({"written": -1}, "Whether its leader has changed since its data could not be read"),
    ],
    ids=["committed", "an earlier transaction", "setting not readable", "data not readable"],
)
@scenario
async def test_a_transaction_whose_marker_may_be_lost_is_unknown_and_not_aborted(
    given: dict[str, Any], doubt: str
) -> None:
    finding = await judged(**given)
    assert (finding.verdict, finding.reason) == ("unknown", "coverage_incomplete")
    (missing,) = [one for one in finding.premises if not one.holds]
    assert missing.name == "soundness"
    assert missing.what.startswith(doubt) or doubt in missing.what
    assert "an abort would hide what is committed" in missing.what
    assert "ask its owner" in (missing.needs or "")
    with pytest.raises(Refused, match="may have lost its COMMIT marker"):
        permit(finding)
    permit(finding, force=True)


@pytest.mark.parametrize(
    "given",
    [{"leads": 3}, {"replicas": 1}, {"unclean": "false"}, {"state": "CompleteAbort"}],
    ids=["same leader epoch", "one replica", "no unclean elections", "aborted"],
)
@scenario
async def test_a_transaction_whose_marker_cannot_be_lost_hangs(given: dict[str, Any]) -> None:
    finding = await judged(**given)
    assert finding.verdict == "hanging"
    permit(finding)
