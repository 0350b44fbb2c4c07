"""What can go wrong with a broker, told apart: the machine lacks something, or Kafka did not do what was asked."""

from __future__ import annotations


class BrokerError(Exception):
    """Every error of tools.broker."""


class BrokerUnavailableError(BrokerError):
    """Java, Maven or Kafka's jars are missing: no broker can be started here. Tests skip on it."""


class BrokerStartError(BrokerError):
    """Kafka was started and did not become ready. The text ends with the tail of its logs."""
