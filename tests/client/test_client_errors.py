"""Errors name the right that a principal lacks."""

from __future__ import annotations

import pytest

import kafkawire
from kafkawire.client.errors import CLUSTER_DENIED, GROUP_DENIED, ID_DENIED, RIGHTS, TOPIC_DENIED, missing_right


@pytest.mark.parametrize(
    ("api", "code", "resource", "right"),
    [
        ("DescribeProducers", TOPIC_DENIED, "orders", "Read on topic orders"),
        ("Metadata", TOPIC_DENIED, "orders", "Describe on topic orders"),
        ("WriteTxnMarkers", CLUSTER_DENIED, "", "Alter or ClusterAction on the cluster"),
        ("DescribeAcls", CLUSTER_DENIED, "", "Describe on the cluster"),
        ("InitProducerId", ID_DENIED, "{x}", "Write on transactional id {x}"),
        ("DescribeTransactions", ID_DENIED, "t", "Describe on transactional id t"),
        ("OffsetFetch", GROUP_DENIED, "g", "Describe on group g"),
        ("Fetch", 3, "orders", None),
    ],
)
def test_missing_right_of_each_request_and_error(api: str, code: int, resource: str, right: str | None) -> None:
    assert missing_right(api, code, resource) == right


@pytest.mark.parametrize(("api", "code"), RIGHTS)
def test_table_names_existing_requests_and_errors(api: str, code: int) -> None:
    assert kafkawire.lookup(f"{api}Request").spec.kind == "request"
    assert kafkawire.kafka_errors.error_name(code).endswith("_AUTHORIZATION_FAILED")
