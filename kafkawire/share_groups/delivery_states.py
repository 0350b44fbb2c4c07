"""The states of a record in a share group: names of the numbers in `DeliveryState` (Kafka's `RecordState`)."""

from __future__ import annotations

from kafkawire.records.named_values import DELIVERY_STATES

AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVING, ARCHIVED = range(5)

#: From these a record never returns.
TERMINAL = frozenset({ACKNOWLEDGED, ARCHIVED})
#: The states that a coordinator stores.
STORED = frozenset(DELIVERY_STATES) - {ACQUIRED}


def delivery_state_name(number: int) -> str:
    """The name of a state; `unknown_9` for a number that Kafka has none for."""
    return DELIVERY_STATES.get(number, f"unknown_{number}")
