"""transaction.max.timeout.ms of the brokers: read from each where that is allowed, and what verdicts count with."""

from __future__ import annotations

import time
from typing import Any

import pytest
from msgspec.structs import replace

from kafkawire.client import BrokerError, ClientError
from kafkawire.client.diagnosis.hanging_search import observe
from kafkawire.client.results import Results
from kafkawire.client.rpc.max_transaction_timeout import max_timeouts, settings
from kafkawire.messages import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeProducersRequest,
    ListOffsetsRequest,
)
from kafkawire.messages.describe_configs_response import DescribeConfigsResourceResult, DescribeConfigsResult
from kafkawire.rows import Setting
from tests.client.answers import admin, producers, scenario
from tests.client.hanging_script import HANGING, SEARCH, broker, find, verdicts
from tests.client.scripted import ScriptedBroker

NAME = "transaction.max.timeout.ms"


def configured(value: str | None = None, code: int = 0, name: str = NAME) -> DescribeConfigsResponse:
    one = DescribeConfigsResourceResult(name=name, value=value)
    return DescribeConfigsResponse(results=(DescribeConfigsResult(error_code=code, configs=() if code else (one,)),))


def asked(made: ScriptedBroker, answer: DescribeConfigsResponse) -> ScriptedBroker:
    made.versions[32] = (1, 4)
    made.on[DescribeConfigsRequest] = lambda _: answer
    return made


async def limit_of(answer: DescribeConfigsResponse) -> Results[int, int]:
    made = asked(ScriptedBroker(), answer)
    async with made.running(), admin(made.address) as client:
        found = await max_timeouts(client.cluster, [1], client.cluster.deadline())
    (request,) = (body for body in made.requests if isinstance(body, DescribeConfigsRequest))
    (resource,) = request.resources
    assert (resource.resource_type, resource.resource_name, resource.configuration_keys) == (4, "1", (NAME,))
    return found


@scenario
async def test_reads_the_limit_of_each_broker() -> None:
    assert (await limit_of(configured("60000"))).values == {1: 60_000}


@scenario
async def test_a_missing_right_is_named() -> None:
    error = (await limit_of(configured(code=31))).errors[1]
    assert isinstance(error, BrokerError)
    assert error.right == "DescribeConfigs on the cluster"


@pytest.mark.parametrize("value", [None, "", "soon", "-1", "2147483648", "9" * 5000, "\u0663"])
@scenario
async def test_malformed_limit_is_an_error(value: str | None) -> None:
    error = (await limit_of(configured(value))).errors[1]
    assert isinstance(error, ClientError)
    assert str(error) == f"broker 1 did not return its {NAME}"


def test_settings_name_the_source_of_the_limit() -> None:
    both: Results[int, int] = Results({1: 60_000, 3: 90_000}, {})
    none: Results[int, int] = Results({}, {1: ClientError("denied")})
    brokers = Setting(name=NAME, value=90_000, source="brokers 1, 3")
    given = Setting(name=NAME, value=1000, source="given")
    assert settings(None, both) == (brokers,)
    assert settings(1000, both) == (given, brokers)
    assert settings(1000, none) == (given,)
    assert settings(90_000, both) == (replace(given, value=90_000),)
    assert settings(None, none) == (Setting(name=NAME, value=900_000, source="Kafka's default"),)


@scenario
async def test_verdicts_count_with_what_the_brokers_allow() -> None:
    """A transaction of 40 minutes ago is young with some of them."""

    async def verdict(answer: DescribeConfigsResponse, given: int | None = None) -> tuple[Any, tuple[Setting, ...]]:
        made = asked(broker(), answer)
        made.on[DescribeProducersRequest] = producers(timestamp=int(time.time() * 1000) - 40 * 60_000)
        audit = await find(made, replace(SEARCH, max_timeout_ms=given))
        return verdicts(audit), audit.read.settings

    hour = "3600000"
    assert (await verdict(configured(hour)))[0] == [("not_hanging", "young")]
    assert (await verdict(configured("600000")))[0] == [HANGING]
    assert (await verdict(configured(code=31)))[0] == [HANGING], "15 minutes where no broker returns it"
    found, used = await verdict(configured(hour), 600_000)
    assert found == [HANGING]
    assert [(one.value, one.source) for one in used] == [(600_000, "given"), (3_600_000, "broker 1")]


@scenario
async def test_settings_are_asked_for_when_no_other_request_is_in_flight() -> None:
    """A broker that closes the connection on DescribeConfigs would end the other requests on it, too."""
    made = asked(broker(), configured("60000"))
    assert verdicts(await find(made)) == [HANGING]
    kinds = [type(body) for body in made.requests]
    settings_at = kinds.index(DescribeConfigsRequest)
    assert kinds.index(ListOffsetsRequest) < settings_at
    assert kinds[settings_at + 1 :].count(DescribeProducersRequest) == 1


@pytest.mark.slow
@scenario
async def test_brokers_that_were_asked_are_expected_and_those_that_answered_are_known() -> None:
    made = asked(broker(), configured("60000"))
    async with made.running(), admin(made.address, socket_connection_setup_timeout_ms="200") as client:
        made.topics["orders"][1] = 3  # no such broker
        seen = await observe(client.cluster, SEARCH, {})
        assert (seen.expected, seen.answered, seen.max_timeout_ms) == ({1, 3}, {1}, 60_000)
        made.on[DescribeConfigsRequest] = lambda _: None
        seen = await observe(client.cluster, SEARCH, {})
        assert (seen.expected, seen.answered) == ({1, 3}, set())
