"""`spec`: what a schema says, as data."""

import pytest

from kafkawire.messages import FetchResponse, StreamsGroupHeartbeatResponse


def test_a_field_is_found_by_each_of_its_names() -> None:
    spec = FetchResponse.spec
    found = {spec.field(name) for name in ("Responses", "responses", "Topics")}
    assert found == {spec.fields[3]}
    assert spec.field("ThrottleTimeMs").attribute == "throttle_time_ms"
    with pytest.raises(KeyError):
        spec.field("NoSuchField")


def test_a_name_goes_before_an_older_name_of_another_field() -> None:
    assert StreamsGroupHeartbeatResponse.spec.field("AcceptableRecoveryLag").name == "AcceptableRecoveryLag"
    assert StreamsGroupHeartbeatResponse.spec.field("acceptableRecoveryLagLegacy").versions == range(1)
