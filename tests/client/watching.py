"""Polls of a watch with invented results, for tests."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from kafkawire.client import ClientError, TopicPartition
from kafkawire.client.diagnosis.search import Observation
from kafkawire.client.diagnosis.unread_partitions import UnreadGap
from kafkawire.client.watch.state import PollAttempt
from kafkawire.rows import Audit, Coverage, Finding

T0 = 1_700_000_000_000
MINUTE_MS = 60_000
ORDERS = TopicPartition("orders", 0)


def finding(place: TopicPartition = ORDERS, reason: str = "transaction_ended", **fields: Any) -> Finding:
    verdict = {"live": "not_hanging", "young": "not_hanging", "late": "not_hanging", "coverage_incomplete": "unknown"}
    given = {"producer_id": 7, "producer_epoch": 0, "start_offset": 40, "age_ms": 30 * MINUTE_MS} | fields
    return Finding(
        topic=place.topic, partition=place.partition, verdict=verdict.get(reason, "hanging"), reason=reason, **given
    )


def observation(
    *findings: Finding,
    described: Collection[TopicPartition] = (ORDERS,),
    errors: Mapping[TopicPartition, str] | None = None,
    leaders: Mapping[TopicPartition, int] | None = None,
    silent: Collection[int] = (),
    gaps: Mapping[str, str] | None = None,
    brokers: tuple[int, ...] = (1, 2),
    missing: Collection[int] = (),
    max_timeout_ms: int = 15 * MINUTE_MS,
) -> Observation:
    return Observation(
        audit=Audit(read=Coverage(brokers=brokers), findings=findings),
        described=frozenset(described),
        errors={place: ClientError(text) for place, text in (errors or {}).items()},
        leaders=dict.fromkeys((*described, *(errors or ())), 1) | dict(leaders or {}),
        silent={broker: ClientError("silent") for broker in silent},
        gaps=tuple(UnreadGap(subject, text) for subject, text in (gaps or {}).items()),
        expected=frozenset(brokers) | frozenset(missing),
        answered=frozenset(brokers) - frozenset(silent),
        max_timeout_ms=max_timeout_ms,
    )


def attempt(
    number: int, seen: Observation | None = None, error: str = "no broker answers", missed: int = 0
) -> PollAttempt:
    """Poll `number`, a minute after the one before, of a second."""
    began = T0 + number * MINUTE_MS
    return PollAttempt(
        number=number,
        began=began,
        ended=began + 1000,
        missed=missed,
        observation=seen,
        error=None if seen is not None else error,
    )
