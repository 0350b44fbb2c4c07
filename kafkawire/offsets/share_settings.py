"""The properties of a share group that decide what becomes of its records, as far as a metadata log has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kafkawire._java_numbers import INT32, whole_number
from kafkawire.transactions.facts import ClusterMetadata

LIMIT, ISOLATION, DEAD_LETTERS = (
    "share.delivery.count.limit", "share.isolation.level", "errors.deadletterqueue.topic.name",
)  # fmt: skip
#: The brokers' property that is the default of a group's limit; share.isolation.level has none.
BROKER_LIMIT = "group.share.delivery.count.limit"
READ_COMMITTED, READ_UNCOMMITTED = "read_committed", "read_uncommitted"


class ShareSettings(NamedTuple):
    """The settings of a share group, now.

    Attributes:
        limit: of delivery counts; None: not known.
        isolation_level: None: not known.
        dead_letter_topic: None: it has none, or that is not known.
        unseen: what is not known, a sentence each.
        limit_changed, isolation_changed, letters_changed: it had another value before, as far as the metadata log
            reaches back, or may have had one: a cluster tells the present ones only.
    """

    limit: int | None = None
    isolation_level: str | None = None
    dead_letter_topic: str | None = None
    unseen: tuple[str, ...] = ()
    limit_changed: bool = False
    isolation_changed: bool = False
    letters_changed: bool = False

    @property
    def read_committed(self) -> bool | None:
        return None if self.isolation_level is None else self.isolation_level == READ_COMMITTED


def share_settings(
    metadata: ClusterMetadata | None, group: str, limit: int | None = None, dead_letter_topic: str | None = None
) -> ShareSettings:
    """The settings by a metadata log. `metadata`: None: no copy of one is here. `limit`, `dead_letter_topic`: as the
    user gives them; they count first."""
    if metadata is None:
        unseen = ["the group's properties: no copy of __cluster_metadata is here"]
        return ShareSettings(limit, None, dead_letter_topic, tuple(unseen))
    of_group = metadata.group_configs.get(group, {})
    brokers = {name: value for (broker, name), value in metadata.configs.items() if not broker}
    found = of_properties(of_group, brokers, limit, dead_letter_topic, complete=metadata.complete)
    changed = metadata.changed_group_configs
    return found._replace(
        limit_changed=(group, LIMIT) in changed or ("", BROKER_LIMIT) in changed,
        isolation_changed=(group, ISOLATION) in changed,
        letters_changed=(group, DEAD_LETTERS) in changed,
    )


def of_properties(
    of_group: Mapping[str, str],
    brokers: Mapping[str, str],
    limit: int | None = None,
    dead_letter_topic: str | None = None,
    *,
    complete: bool = True,
) -> ShareSettings:
    """The settings by a group's own properties, and by those of all brokers. `limit`, `dead_letter_topic`: these count
    first. `complete`: a property that is not in `of_group` was not set."""
    unseen = []
    for value in (of_group.get(LIMIT), brokers.get(BROKER_LIMIT)):
        if limit is None and value is not None:
            limit = whole_number(value, INT32)
    if limit is None:
        unseen.append(
            f"the delivery count limit: neither {LIMIT} of the group nor {BROKER_LIMIT} was set while brokers ran, and "
            "server.properties is not in log directories (--delivery-count-limit gives it; Kafka's default is 5)"
        )
    isolation = of_group.get(ISOLATION)
    if isolation is None and complete:
        isolation = READ_UNCOMMITTED  # Kafka's default, which no broker's property changes
    if isolation is None:
        unseen.append("the group's isolation level: records of the metadata log are missing")
    return ShareSettings(
        limit=limit,
        isolation_level=None if isolation is None else isolation.lower(),
        dead_letter_topic=dead_letter_topic or of_group.get(DEAD_LETTERS) or None,
        unseen=tuple(unseen),
    )
