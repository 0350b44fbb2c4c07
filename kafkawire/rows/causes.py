"""Rows of the cause of a finding: which known defect or setting its evidence fits."""

from __future__ import annotations

from kafkawire.rows.base import Row


class Cause(Row, frozen=True, kw_only=True):
    """Why a transaction hangs, is stuck or is late.

    Attributes:
        name: of the fingerprint (docs/transactions.md lists them); `unknown` if none fits.
        certainty: `proven`: the evidence excludes other causes; `consistent`: it fits, and others are possible;
            `unknown`: it cannot be excluded, or nothing fits.
        issues: ids of Kafka's issues and KIPs.
        affected, fixed: releases, as text.
        evidence: what it rests on, one sentence each.
        remedy: what to upgrade or to set.
    """

    name: str
    certainty: str
    issues: tuple[str, ...] = ()
    affected: str | None = None
    fixed: str | None = None
    evidence: tuple[str, ...] = ()
    remedy: str | None = None
