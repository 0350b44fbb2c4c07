"""Errors of a live cluster. Each text is a sentence with the place, the cause, and the remedy where there is one.

`retriable`: whether the same request may succeed shortly afterwards, at the same broker or at another one.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafkawire.errors import KafkaWireError
from kafkawire.kafka_errors import error_name


class ClientError(KafkaWireError):
    """Base class of the client's errors."""

    retriable = False


class ConfigError(ClientError):
    """A client property that is wrong or not supported; the text names the remedy."""


class ConnectError(ClientError):
    """A connection that could not be opened, or was lost. `address`: of the broker."""

    retriable = True

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"{address}: {reason}")
        self.address = address
        self.reason = reason


class TlsError(ConnectError):
    """The TLS handshake failed."""

    retriable = False


class PeerError(ConnectError):
    """The address is not a listener of a Kafka broker, or its protocol differs from `security.protocol`."""

    retriable = False


class AuthenticationError(ConnectError):
    """The broker does not accept the client's credentials."""

    retriable = False


class ProtocolError(ConnectError):
    """A response that cannot be read. The connection is closed."""

    retriable = False


class RequestTimeoutError(ConnectError):
    """A broker did not answer in time."""


class ApiTimeoutError(ClientError):
    """A call did not finish in time; the text names what it was waiting for."""


class UnsupportedApiError(ClientError):
    """A broker does not support a request in a version that the client knows."""


class NotSentError(ClientError):
    """A request that changes the cluster was not sent, because of its connection: judge again what it rests on."""


class OutcomeUnknownError(ClientError):
    """A request that changes the cluster was sent without a response: it may have been carried out."""


class NoSuchBrokerError(ClientError):
    """A broker id that is not in the cluster's metadata."""

    @classmethod
    def of(cls, broker_id: int, known: Iterable[int]) -> NoSuchBrokerError:
        """The error for a broker id, with the ids that the cluster has."""
        names = ", ".join(map(str, sorted(known))) or "none"
        return cls(f"the cluster has no broker {broker_id} now; its brokers are {names}")


class BrokerError(ClientError):
    """A broker answered with an error code.

    Attributes:
        code: Kafka's error code. `name`: its name, `UNKNOWN_<n>` for an unknown code.
        right: the right that the principal lacks, "Read on topic orders"; None if the error is not about rights.
    """

    def __init__(self, code: int, what: str, *, detail: str = "", right: str | None = None) -> None:
        self.code = code
        self.name = error_name(code)
        self.right = right
        self.retriable = code in RETRIABLE
        text = f"{what}: {self.name}" + (f" ({detail})" if detail else "")
        super().__init__(f"{text}: the principal needs {right}" if right else text)

    @classmethod
    def answering(cls, api: str, code: int, what: str, resource: str = "", detail: str | None = "") -> BrokerError:
        """The error that answers a request, with the right that it needs.

        Args:
            api: the request's name, "Fetch". `what`: the subject of the sentence, "partition orders-0".
            resource: the topic, group or transactional id that the right is for.
        """
        return cls(code, what, detail=detail or "", right=missing_right(api, code, resource))


#: Temporary errors: Kafka's RetriableException, as far as this client's requests get them, and CONCURRENT_TRANSACTIONS.
RETRIABLE = frozenset({3, 5, 6, 7, 8, 9, 13, 14, 15, 16, 51, 56, 72, 74, 75, 78, 84, 89, 100})

#: Codes that the client distinguishes.
OFFSET_OUT_OF_RANGE = 1
UNKNOWN_TOPIC_OR_PARTITION = 3
LEADER_NOT_AVAILABLE = 5
NOT_COORDINATOR = 16
TOPIC_DENIED = 29
GROUP_DENIED = 30
CLUSTER_DENIED = 31
SASL_MECHANISM = 33
SASL_STATE = 34
UNSUPPORTED_VERSION = 35
CONCURRENT_TRANSACTIONS = 51
SECURITY_DISABLED = 54
UNSTABLE_OFFSET_COMMIT = 88
ID_DENIED = 53
GROUP_ID_NOT_FOUND = 69
ID_NOT_FOUND = 105

#: (api, code) -> right and resource; `{}` is the topic, id or group (Kafka's AclAuthorizer table; tried on 4.4.0).
RIGHTS = {
    ("DescribeProducers", TOPIC_DENIED): "Read on topic {}",
    ("Fetch", TOPIC_DENIED): "Read on topic {}",
    ("WriteTxnMarkers", CLUSTER_DENIED): "Alter or ClusterAction on the cluster",
    ("DescribeConfigs", CLUSTER_DENIED): "DescribeConfigs on the cluster",
    ("DescribeConfigs", TOPIC_DENIED): "DescribeConfigs on topic {}",
    ("InitProducerId", ID_DENIED): "Write on transactional id {}",
    ("InitProducerId", CLUSTER_DENIED): "IdempotentWrite on the cluster",
}
_USUAL = {
    TOPIC_DENIED: "Describe on topic {}",
    GROUP_DENIED: "Describe on group {}",
    CLUSTER_DENIED: "Describe on the cluster",
    ID_DENIED: "Describe on transactional id {}",
}


def missing_right(api: str, code: int, resource: str = "") -> str | None:
    """The right that a principal lacks, `Read on topic orders`; None where the error is not about rights.

    Args:
        api: the request's name, "Fetch". `code`: the error code of its response.
        resource: the topic, group or transactional id.
    """
    right = RIGHTS.get((api, code), _USUAL.get(code))
    return None if right is None else right.format(resource)


def is_unknown_id(error: ClientError) -> bool:
    """Whether a coordinator does not know the transactional id."""
    return isinstance(error, BrokerError) and error.code == ID_NOT_FOUND
