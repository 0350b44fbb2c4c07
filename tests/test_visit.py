"""`visit`: what messages name, found by kind and rewritten."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kafkawire import visit
from kafkawire.messages import (
    REGISTRY,
    DescribeAclsResponse,
    DescribeConfigsRequest,
    FetchRequest,
    FindCoordinatorResponse,
    MetadataResponse,
    TransactionLogValue,
    UpdateMetadataRequest,
)
from kafkawire.testing import strategies
from kafkawire.visit import Endpoint, Found

METADATA = MetadataResponse(
    brokers=(
        MetadataResponse.MetadataResponseBroker(node_id=1, host="a", port=9092),
        MetadataResponse.MetadataResponseBroker(node_id=2, host="b", port=9093),
    ),
    controller_id=-1,
    topics=(
        MetadataResponse.MetadataResponseTopic(
            name="orders",
            partitions=(MetadataResponse.MetadataResponsePartition(leader_id=1, replica_nodes=(1, 2), isr_nodes=(1,)),),
        ),
        MetadataResponse.MetadataResponseTopic(name=None),
    ),
)


def test_finds_values_of_the_given_kinds_in_the_order_of_the_fields() -> None:
    assert list(visit.find(METADATA, visit.ENDPOINT, visit.TOPIC_NAME)) == [
        Found("endpoint", "brokers[0].host", Endpoint("a", 9092)),
        Found("endpoint", "brokers[1].host", Endpoint("b", 9093)),
        Found("topicName", "topics[0].name", "orders"),
    ]
    assert [(found.path, found.value) for found in visit.find(METADATA, visit.BROKER_ID)] == [
        ("brokers[0].node_id", 1),
        ("brokers[1].node_id", 2),
        ("topics[0].partitions[0].leader_id", 1),
        ("topics[0].partitions[0].replica_nodes[0]", 1),
        ("topics[0].partitions[0].replica_nodes[1]", 2),
        ("topics[0].partitions[0].isr_nodes[0]", 1),
    ]
    assert len(list(visit.find(METADATA))) == 9


def test_rewrites_endpoints_and_names() -> None:
    rewritten = visit.rewrite(
        METADATA,
        {
            visit.ENDPOINT: lambda endpoint: Endpoint("proxy", endpoint.port + 20_000),
            visit.TOPIC_NAME: lambda name: f"tenant.{name}",
        },
    )
    assert [(broker.host, broker.port) for broker in rewritten.brokers] == [("proxy", 29092), ("proxy", 29093)]
    assert [topic.name for topic in rewritten.topics or ()] == ["tenant.orders", None]
    assert rewritten.topics is not None
    assert METADATA.topics is not None
    assert rewritten.topics[0].partitions is METADATA.topics[0].partitions
    assert rewritten.topics[1] is METADATA.topics[1]


def test_what_is_not_changed_stays_the_same_object() -> None:
    assert visit.rewrite(METADATA, {visit.TOPIC_NAME: str, visit.BROKER_ID: int}) is METADATA
    assert visit.rewrite(METADATA, {visit.PRODUCER_ID: lambda _: 1}) is METADATA
    assert visit.rewrite(METADATA, {}) is METADATA


def test_refuses_unknown_kinds() -> None:
    with pytest.raises(ValueError, match="no kinds of values: topic; there are brokerId, endpoint, groupId"):
        visit.rewrite(METADATA, {"topic": str})
    with pytest.raises(ValueError, match="no kinds of values: topic"):
        visit.find(METADATA, "topic")


def test_what_stands_for_none_is_left_alone() -> None:
    failed = FindCoordinatorResponse(error_code=15, host="", port=-1, node_id=-1)
    assert list(visit.find(failed)) == []
    assert (
        visit.rewrite(failed, {visit.ENDPOINT: lambda _: Endpoint("proxy", 1), visit.BROKER_ID: lambda _: 7}) is failed
    )


def test_resources_are_of_the_kind_that_their_type_says() -> None:
    resource = DescribeConfigsRequest.DescribeConfigsResource
    request = DescribeConfigsRequest(
        resources=(resource(resource_type=2, resource_name="orders"), resource(resource_type=4, resource_name="1"))
    )
    assert list(visit.find(request)) == [Found("topicName", "resources[0].resource_name", "orders")]
    changed = visit.rewrite(request, {visit.TOPIC_NAME: str.upper})
    assert [one.resource_name for one in changed.resources] == ["ORDERS", "1"]
    acl = DescribeAclsResponse.DescribeAclsResource(resource_type=3, resource_name="billing")
    assert [found.kind for found in visit.find(DescribeAclsResponse(resources=(acl,)))] == ["groupId"]


def test_records_and_old_versions_name_entities_too() -> None:
    value = TransactionLogValue(
        producer_id=4, transaction_partitions=(TransactionLogValue.PartitionsSchema(topic="orders"),)
    )
    assert [(found.kind, found.value) for found in visit.find(value)] == [("producerId", 4), ("topicName", "orders")]
    broker = UpdateMetadataRequest.UpdateMetadataBroker(id=1, v0_host="old", v0_port=9092)
    found = [one.value for one in visit.find(UpdateMetadataRequest(live_brokers=(broker,)), visit.ENDPOINT)]
    assert found == [Endpoint("old", 9092)]
    assert [one.value for one in visit.find(FetchRequest(topics=(FetchRequest.FetchTopic(topic="orders"),)))] == [
        "orders"
    ]


#: Strings that are patterns or settings, and hosts of clients and of access rules.
OTHERS = {
    "SubscribedTopicRegex", "SourceTopicRegex", "TransactionalIdPattern", "GroupInstanceId", "groupInstanceId",
    "GroupState", "GroupType", "ClientHost", "clientHost", "HostFilter",
}  # fmt: skip


def test_each_field_named_after_an_entity_has_its_kind() -> None:
    missed = []
    for entry in REGISTRY:
        for struct in REGISTRY.load(entry).codec.classes:
            sites = {site.attribute for site in visit._sites(struct, visit._KINDS)}
            ports = "Port" in {field.name for field in struct.spec.fields}
            for field in struct.spec.fields:
                name = field.name.lower()
                if field.type.removeprefix("[]") == "string":
                    speaks = any(what in name for what in ("topic", "group", "transactionalid")) or (
                        "host" in name and ports
                    )
                elif field.type.removeprefix("[]") == "int64":
                    speaks = "producerid" in name
                else:
                    speaks = name in ("brokerid", "leaderid", "replicaid")
                if speaks and field.attribute not in sites and field.name not in OTHERS:
                    missed.append(f"{entry.name}: {struct.spec.name}.{field.name}")
    assert missed == []


@given(st.data())
def test_rewriting_with_a_plan_is_rewriting_what_is_found(data: st.DataObject) -> None:
    """Each value that `find` has is replaced, nothing else, and nothing where the function returns the same."""
    frame = data.draw(strategies.frames())
    kinds = data.draw(st.sets(st.sampled_from(sorted(visit._KINDS)), min_size=1))
    before = list(visit.find(frame.body, *kinds))
    assert visit.rewrite(frame.body, {kind: (lambda value: value) for kind in kinds}) is frame.body

    def changed(value: object) -> object:
        if isinstance(value, visit.Endpoint):
            return visit.Endpoint(value.host + "x", (value.port + 1) & 0x7FFF)
        return value + "x" if isinstance(value, str) else (value ^ 1) if value > 1 else 77  # type: ignore[operator]

    rewritten = visit.rewrite(frame.body, dict.fromkeys(kinds, changed))
    after = list(visit.find(rewritten, *kinds))
    assert [(one.kind, one.path) for one in after] == [(one.kind, one.path) for one in before]
    assert [one.value for one in after] == [changed(one.value) for one in before]
    if others := visit._KINDS - kinds:
        assert list(visit.find(rewritten, *others)) == list(visit.find(frame.body, *others))


@pytest.mark.slow
def test_rewriting_costs_at_most_three_times_what_is_written_by_hand() -> None:
    """A Metadata of 4,000 partitions, of which every broker id changes: the dearest case of a proxy."""
    partition = MetadataResponse.MetadataResponsePartition(leader_id=1, replica_nodes=(0, 1, 2), isr_nodes=(0, 1, 2))
    topic = MetadataResponse.MetadataResponseTopic(name="t", partitions=(partition,) * 40)
    response = MetadataResponse(topics=(topic,) * 100)

    def moved(number: int) -> int:
        return number + 1000

    def by_hand() -> MetadataResponse:
        return response.replace(
            topics=tuple(
                replace(
                    topic,
                    partitions=tuple(
                        replace(
                            one,
                            leader_id=moved(one.leader_id),
                            replica_nodes=tuple(moved(number) for number in one.replica_nodes),
                            isr_nodes=tuple(moved(number) for number in one.isr_nodes),
                        )
                        for one in topic.partitions
                    ),
                )
                for topic in response.topics
            )
        )

    def seconds(run: Callable[[], object]) -> float:
        least = 1e9
        for _ in range(7):
            began = time.process_time()
            run()
            least = min(least, time.process_time() - began)
        return least

    assert visit.rewrite(response, {visit.BROKER_ID: moved}) == by_hand()
    assert seconds(lambda: visit.rewrite(response, {visit.BROKER_ID: moved})) < 3 * seconds(by_hand)
