"""Errors of a live cluster: each is one sentence with what happened, where, and what to do.

`retriable` is whether the same request may succeed a moment later, at the same broker or at another one.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafkawire.errors import KafkaWireError
from kafkawire.kafka_errors import NAMES


class ClientError(KafkaWireError):
    """Root of the errors of this room."""

    retriable = False


class ConfigError(ClientError):
    """A client property that is wrong, or asks for what this client does not support; the text names the remedy."""


class ConnectError(ClientError):
    """No connection, or one that was lost. `address` is the broker's, `reason` why."""

    retriable = True

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"{address}: {reason}")
        self.address = address
        self.reason = reason


class TlsError(ConnectError):
    """The TLS handshake failed: it would fail again."""

    retriable = False


class PeerError(ConnectError):
    """What answers is no Kafka broker, or not on this listener: it would answer the same again."""

    retriable = False


class AuthenticationError(ConnectError):
    """The broker does not accept the client's credentials."""

    retriable = False


class ProtocolError(ConnectError):
    """A response that cannot be read. The connection is closed: nothing behind it can be trusted."""

    retriable = False


class RequestTimeoutError(ConnectError):
    """A broker did not answer in time."""


class ApiTimeoutError(ClientError):
    """A call did not come to its end in time; the text names what it was waiting for."""


class UnsupportedApiError(ClientError):
    """A broker is too old (or too new) for a request."""


class OutcomeUnknownError(ClientError):
    """A request that changes something was sent, and no answer came: it may have been carried out."""


class NoSuchBrokerError(ClientError):
    """A broker id that the cluster's metadata does not name."""

    @classmethod
    def of(cls, broker_id: int, known: Iterable[int]) -> NoSuchBrokerError:
        """The error for a broker id, with the ids that the cluster has."""
        names = ", ".join(map(str, sorted(known))) or "none"
        return cls(f"the cluster has no broker {broker_id} now; its brokers are {names}")


class BrokerError(ClientError):
    """A broker answered with an error code.

    Attributes:
        code: Kafka's error code. `name`: its name, `UNKNOWN_<n>` for one that is not known.
        right: what the principal lacks, "Read on topic orders"; None where the error is not about rights.
    """

    def __init__(self, code: int, what: str, *, detail: str = "", right: str | None = None) -> None:
        self.code = code
        self.name = NAMES.get(code, f"UNKNOWN_{code}")
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


#: Codes that pass: Kafka's RetriableException, as far as the requests of this client meet them, and
#: CONCURRENT_TRANSACTIONS, with which a coordinator asks for patience.
RETRIABLE = frozenset({3, 5, 6, 7, 8, 9, 13, 14, 15, 16, 51, 56, 72, 74, 75, 78, 84, 89, 100})

#: Codes that are looked at by name.
UNKNOWN_TOPIC_OR_PARTITION = 3
LEADER_NOT_AVAILABLE = 5
NOT_COORDINATOR = 16
TOPIC_DENIED = 29
GROUP_DENIED = 30
CLUSTER_DENIED = 31
SASL_MECHANISM = 33
SASL_STATE = 34
UNSUPPORTED_VERSION = 35
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
    """The right that a principal lacks, `Read on topic orders`; None where the error is not about rights."""
    right = RIGHTS.get((api, code), _USUAL.get(code))
    return None if right is None else right.format(resource)


def is_unknown_id(error: ClientError) -> bool:
    """Whether a coordinator answered that it does not have the transactional id."""
    return isinstance(error, BrokerError) and error.code == ID_NOT_FOUND
