"""A proxy that holds one request, keeps clients on it, and delivers late what it has held."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from kafkawire import frames
from kafkawire.messages import MetadataRequest
from kafkawire.proxy import Fault, Proxy
from tests.client.partition_script import PartitionBroker, in_thread
from tools.recordings import RecordingError
from tools.recordings.raw_client import RawCluster


def test_clients_stay_on_the_proxy() -> None:
    with (
        in_thread(PartitionBroker(2)) as broker,
        Proxy(broker.address) as proxy,
        RawCluster(broker.address) as direct,
        RawCluster(proxy.address) as through,
    ):
        assert direct.brokers() == {1: ("127.0.0.1", broker.port)}
        host, _, port = proxy.address.rpartition(":")
        assert through.brokers() == {1: (host, int(port))}
        assert through.leaders(["orders"]) == direct.leaders(["orders"])


def test_holds_one_request_until_it_is_released() -> None:
    answers: list[object] = []
    with in_thread(PartitionBroker(1)) as broker, Proxy(broker.address) as proxy:
        waiting = proxy.hold(MetadataRequest, number=2)
        with RawCluster(proxy.address) as held:
            held.metadata()
            asking = threading.Thread(target=lambda: answers.append(held.metadata()))
            asking.start()
            assert waiting.caught.wait(10)
            with RawCluster(proxy.address) as other:
                assert other.metadata().brokers  # of another connection, and the third one
            assert broker.count(MetadataRequest) == 2
            assert answers == []
            waiting.release()
            asking.join(10)
        assert len(answers) == 1
        assert broker.count(MetadataRequest) == 3


def test_a_request_that_is_not_released_is_lost() -> None:
    with in_thread(PartitionBroker(1)) as broker:
        failed: list[Exception] = []
        with Proxy(broker.address) as proxy:
            waiting = proxy.hold(MetadataRequest)
            address = proxy.address

            def ask() -> None:
                try:
                    with RawCluster(address) as held:
                        held.metadata()
                except Exception as error:
                    failed.append(error)

            asking = threading.Thread(target=ask)
            asking.start()
            assert waiting.caught.wait(10)
        asking.join(10)
        waiting.release()  # too late, and no error
        assert len(failed) == 1
        assert broker.count(MetadataRequest) == 0


def test_a_released_request_arrives_although_its_client_has_gone() -> None:
    with in_thread(PartitionBroker(1)) as broker, Proxy(broker.address) as proxy:
        waiting = proxy.hold(MetadataRequest)
        host, _, port = proxy.address.rpartition(":")
        with socket.create_connection((host, int(port))) as client:
            client.sendall(frames.encode_request(MetadataRequest(topics=()), version=9, correlation_id=1))
            assert waiting.caught.wait(10)
        assert broker.count(MetadataRequest) == 0
        waiting.release()
        until = time.monotonic() + 10
        while broker.count(MetadataRequest) == 0 and time.monotonic() < until:
            time.sleep(0.01)
        assert broker.count(MetadataRequest) == 1


def test_loses_the_response_to_one_request() -> None:
    with in_thread(PartitionBroker(1)) as broker, Proxy(broker.address) as proxy:
        with RawCluster(proxy.address) as asking:
            asking.metadata()
            proxy.fault(Fault(MetadataRequest, drop="response", times=1))
            with pytest.raises(RecordingError):
                asking.metadata()
        assert broker.count(MetadataRequest) == 2  # it got both


def test_number_counts_from_one() -> None:
    with pytest.raises(ValueError, match="number=0"):
        Proxy("127.0.0.1:1").hold(MetadataRequest, number=0)
