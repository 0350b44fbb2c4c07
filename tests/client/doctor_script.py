"""Settings of a broker, as a mock broker returns them to `txn doctor`."""

from __future__ import annotations

from typing import Any

from kafkawire.messages import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
)
from kafkawire.messages.describe_configs_response import DescribeConfigsResourceResult, DescribeConfigsResult
from kafkawire.testing import MockBroker

DEFAULTS = {
    "transaction.max.timeout.ms": "900000",
    "transactional.id.expiration.ms": "604800000",
    "producer.id.expiration.ms": "86400000",
    "transaction.partition.verification.enable": "true",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "10000",
    "transaction.two.phase.commit.enable": "false",
    "transaction.state.log.num.partitions": "4",
    "unclean.leader.election.enable": "false",
    "log.cleaner.enable": "true",
}


def answering(broker: MockBroker, over: dict[str, str], denied: bool = False) -> None:
    def described(request: Any) -> DescribeConfigsResponse:
        return DescribeConfigsResponse(
            results=tuple(
                DescribeConfigsResult(
                    error_code=31 if denied else 0,
                    error_message=None,
                    resource_type=one.resource_type,
                    resource_name=one.resource_name,
                    configs=tuple(
                        DescribeConfigsResourceResult(name=name, value=value, config_source=5, documentation=None)
                        for name, value in (DEFAULTS | over).items()
                        if name in (one.configuration_keys or ())
                    ),
                )
                for one in request.resources
            )
        )

    broker.on(DescribeConfigsRequest, described)
    broker.on(DescribeLogDirsRequest, lambda request: DescribeLogDirsResponse(error_code=31 if denied else 0))
    broker.on(DescribeQuorumRequest, lambda request: DescribeQuorumResponse(error_code=31, error_message=None))
