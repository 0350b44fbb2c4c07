"""The fault proxy: holds one request, keeps clients on it, and delivers late what it has held."""

from __future__ import annotations

import threading

import pytest

from kafkawire.messages import MetadataRequest, ProduceRequest
from tests.client.partition_script import PartitionBroker, in_thread
from tools.fault_proxy import FaultProxy
from tools.recordings.errors import RecordingError
from tools.recordings.raw_client import RawCluster


def test_clients_stay_on_the_proxy() -> None:
    with in_thread(PartitionBroker(2)) as broker, FaultProxy(broker.address, ProduceRequest) as proxy:
        with RawCluster(broker.address) as direct, RawCluster(proxy.address) as through:
            assert direct.brokers() == {1: ("127.0.0.1", broker.port)}
            host, _, port = proxy.address.rpartition(":")
            assert through.brokers() == {1: (host, int(port))}
            assert through.leaders(["orders"]) == direct.leaders(["orders"])
        assert not proxy.caught.is_set()


def test_holds_one_request_until_it_is_released() -> None:
    answers: list[object] = []
    with in_thread(PartitionBroker(1)) as broker, FaultProxy(broker.address, MetadataRequest, number=2) as proxy:
        with RawCluster(proxy.address) as held:
            held.metadata()
            asking = threading.Thread(target=lambda: answers.append(held.metadata()))
            asking.start()
            assert proxy.caught.wait(10)
            with RawCluster(proxy.address) as other:
                assert other.metadata().brokers  # of another connection, and the third one
            assert broker.count(MetadataRequest) == 2
            assert answers == []
            proxy.release()
            asking.join(10)
        assert len(answers) == 1
        assert broker.count(MetadataRequest) == 3


def test_a_request_that_is_not_released_is_lost() -> None:
    with in_thread(PartitionBroker(1)) as broker:
        proxy = FaultProxy(broker.address, MetadataRequest)
        with RawCluster(proxy.address) as held:  # it is closed after its thread has ended, not under it
            failed: list[Exception] = []

            def ask() -> None:
                try:
                    held.metadata()
                except Exception as error:
                    failed.append(error)

            asking = threading.Thread(target=ask)
            with proxy:
                asking.start()
                assert proxy.caught.wait(10)
            asking.join(10)
        assert len(failed) == 1
        assert broker.count(MetadataRequest) == 0


def test_loses_the_response_to_one_request() -> None:
    with (
        in_thread(PartitionBroker(1)) as broker,
        FaultProxy(broker.address, MetadataRequest, number=2, loses_response=True) as proxy,
    ):
        with RawCluster(proxy.address) as asking:
            asking.metadata()
            with pytest.raises(RecordingError):
                asking.metadata()
        assert proxy.caught.is_set()
        assert broker.count(MetadataRequest) == 2  # it got both
