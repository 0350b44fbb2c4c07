"""A live cluster: connect, authenticate, negotiate, route, retry; and the administrator's calls of KIP-664.

async with Admin.connect("localhost:9092", read_properties("client.properties")) as admin:
    listed = await admin.list_transactions(states=["Ongoing"])
    described = await admin.describe_transactions(["payments-1"])
    producers = await admin.describe_producers([TopicPartition("orders", 0)])

`aborting.abort` and `terminating.terminate` end transactions: they judge before, record, and verify afterwards.
`Connection` is the protocol alone, bytes in and events out; `Cluster` the brokers and their connections; `Admin` the
typed calls. Nothing waits past its deadline, and every error is one sentence.
"""

from kafkawire.client.admin import Admin
from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.diagnosis.search import Search
from kafkawire.client.errors import (
    ApiTimeoutError,
    AuthenticationError,
    BrokerError,
    ClientError,
    ConfigError,
    ConnectError,
    NoSuchBrokerError,
    OutcomeUnknownError,
    PeerError,
    ProtocolError,
    RequestTimeoutError,
    TlsError,
    UnsupportedApiError,
)
from kafkawire.client.results import (
    Broker,
    Marked,
    Metadata,
    Offsets,
    PartitionInfo,
    ProducerIdAndEpoch,
    ProducerState,
    Results,
    TopicPartition,
    TransactionDescription,
    TransactionListing,
)
from kafkawire.client.transport.config import Config, read_properties
from kafkawire.client.transport.connection import Connection
from kafkawire.client.watch.polling import Watch

__all__ = [
    "Admin",
    "ApiTimeoutError",
    "AuthenticationError",
    "Broker",
    "BrokerError",
    "ClientError",
    "Cluster",
    "Config",
    "ConfigError",
    "ConnectError",
    "Connection",
    "Marked",
    "Metadata",
    "NoSuchBrokerError",
    "Offsets",
    "OutcomeUnknownError",
    "PartitionInfo",
    "PeerError",
    "ProducerIdAndEpoch",
    "ProducerState",
    "ProtocolError",
    "RequestTimeoutError",
    "Results",
    "Search",
    "TlsError",
    "TopicPartition",
    "TransactionDescription",
    "TransactionListing",
    "UnsupportedApiError",
    "Watch",
    "read_properties",
]
