"""Errors of brokers: a missing requirement of the machine, or a failure of Kafka."""

from __future__ import annotations


class BrokerToolError(Exception):
    """Base class of the errors of tools.broker."""


class BrokerUnavailableError(BrokerToolError):
    """Java, Maven or Kafka's jars are missing, so that no broker can be started. Tests skip then."""


class BrokerStartError(BrokerToolError):
    """Kafka was started and did not become ready. The text ends with the tail of its logs."""
