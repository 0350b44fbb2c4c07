"""`ClusterTraits`: the release, features and settings of a cluster, as far as they decide between causes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from kafkawire.transactions.formatting import named

#: The broker setting that decides between causes.
VERIFICATION = "transaction.partition.verification.enable"
#: Broker settings of how long transactions and ids last.
MAX_TIMEOUT = "transaction.max.timeout.ms"
PRODUCER_EXPIRATION = "producer.id.expiration.ms"
ID_EXPIRATION = "transactional.id.expiration.ms"

Release = tuple[int, int]


class ClusterTraits(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the brokers; None for what is not.

    Attributes:
        verified: whether every leader verifies that a batch's partition is in its transaction (KIP-890, from 3.6 on):
            False if one does not.
        why: where `verified` is from, as a sentence.
        transaction_version: the finalised feature `transaction.version`.
        oldest, newest: the oldest and the newest release that a broker can be, as (major, minor).
        first_free_producer_id: from this one on, none was handed out.
        id_expiration_ms: transactional.id.expiration.ms.
    """

    verified: bool | None = None
    why: str = ""
    transaction_version: int | None = None
    oldest: Release | None = None
    newest: Release | None = None
    first_free_producer_id: int | None = None
    id_expiration_ms: int | None = None


def release_of(text: str) -> Release:
    """`3.9.1` as (3, 9)."""
    major, minor = text.split(".")[:2]
    return int(major), int(minor)


def verification(values: Mapping[int, str | None], newest: Release | None) -> tuple[bool | None, str]:
    """Whether all brokers verify, and why. `values`: of `VERIFICATION` by broker; None: the broker answered, and does
    not have the setting. `newest`: release of the brokers."""
    if newest is not None and newest < (3, 6):
        return False, f"Brokers of Kafka {newest[0]}.{newest[1]} do not verify partitions: that came with 3.6."
    off = [str(broker) for broker, value in sorted(values.items()) if value == "false"]
    if off:
        return False, f"{VERIFICATION} is false on {named('broker', off)}."
    lacking = [str(broker) for broker, value in sorted(values.items()) if value is None]
    if lacking:
        return False, f"{VERIFICATION} is not a setting of {named('broker', lacking)}: before 3.6 no broker verifies."
    if values:
        return True, f"{VERIFICATION} is true on all brokers now."
    return None, ""


#: metadata.version -> the first release that has it (Kafka's MetadataVersion); between two, the lower one holds.
_METADATA_VERSIONS = {
    1: (3, 0), 2: (3, 1), 3: (3, 2), 4: (3, 3), 8: (3, 4), 9: (3, 5), 12: (3, 6), 15: (3, 7), 20: (3, 8), 21: (3, 9),
    22: (4, 0), 26: (4, 1), 28: (4, 2), 30: (4, 3), 31: (4, 4),
}  # fmt: skip


def release_with(metadata_version: int) -> Release | None:
    """The oldest release that can have finalised a metadata.version."""
    known = [release for level, release in _METADATA_VERSIONS.items() if level <= metadata_version]
    return max(known, default=None)


def copied_traits(
    features: Mapping[str, int],
    configs: Mapping[tuple[str, str], str],
    *,
    first_free_producer_id: int | None,
    id_expiration_ms: int | None,
) -> ClusterTraits:
    """The traits that a copy of the metadata log shows: features, and only those settings that were set while brokers
    ran.

    Args:
        features: name -> level. `configs`: (broker's id or "" for all, name) -> value.
        first_free_producer_id, id_expiration_ms: as in `ClusterTraits`.
    """
    oldest = release_with(features.get("metadata.version", 0))
    values = [value.lower() for (_, name), value in configs.items() if name == VERIFICATION]
    verified = False if "false" in values else True if values else None
    return ClusterTraits(
        verified=verified,
        why="" if verified is None else f"{VERIFICATION} was set to {str(verified).lower()} in the metadata log.",
        transaction_version=features.get("transaction.version", 0) if features else None,
        oldest=oldest,
        first_free_producer_id=first_free_producer_id,
        id_expiration_ms=id_expiration_ms,
    )


def oldest_and_newest(releases: Iterable[Iterable[str]]) -> tuple[Release | None, Release | None]:
    """The oldest and the newest release of brokers. `releases`: of each broker the releases that it can be; empty for
    one that is not known."""
    found = [sorted(map(release_of, one)) for one in releases]
    if not found or not all(found):
        return None, None
    return min(one[0] for one in found), max(one[-1] for one in found)
