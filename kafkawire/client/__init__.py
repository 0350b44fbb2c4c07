"""A client for live clusters, with the administrative calls of KIP-664.

    async with Admin.connect("localhost:9092", read_properties("client.properties")) as admin:
        listed = await admin.list_transactions(states=["Ongoing"])
        described = await admin.describe_transactions(["payments-1"])
        producers = await admin.describe_producers([TopicPartition("orders", 0)])

`Connection` is the protocol without input and output. `Cluster` holds the brokers and their connections. `Admin` has
the typed calls. `Watch` repeats the search for hanging transactions. `actions.aborting.abort` and
`actions.terminating.terminate` verify a transaction, record and end it, and verify the outcome. No call outlasts its
deadline.
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
