"""Kafka's own classes, of any release, as a process that answers questions: what it writes, what it reads."""

from tools.oracle.build import OracleUnavailableError
from tools.oracle.oracle_process import Oracle

__all__ = ["Oracle", "OracleUnavailableError"]
