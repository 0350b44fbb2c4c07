"""The states of a record in a share group: names of the numbers in `DeliveryState` (Kafka's `RecordState`)."""

from __future__ import annotations

AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVING, ARCHIVED = range(5)

#: Number -> name. `acquired` is never stored: a leader keeps it in memory.
DELIVERY_STATES = {
    AVAILABLE: "available",
    ACQUIRED: "acquired",
    ACKNOWLEDGED: "acknowledged",
    ARCHIVING: "archiving",
    ARCHIVED: "archived",
}
#: From these a record never returns.
TERMINAL = frozenset({ACKNOWLEDGED, ARCHIVED})
#: The states that a coordinator stores.
STORED = frozenset(DELIVERY_STATES) - {ACQUIRED}


def delivery_state_name(number: int) -> str:
    """The name of a state; `unknown_9` for a number that Kafka has none for."""
    return DELIVERY_STATES.get(number, f"unknown_{number}")
