"""`attention_of`: whether a finding needs attention: it hangs, is stuck, or has held the last stable offset for too
long.

Each running transaction holds a last stable offset for a moment. One that holds it for longer than a limit blocks
readers, whatever its verdict. Headlines and exit codes follow from this.
"""

from __future__ import annotations

from kafkawire.rows import Finding

HANGING, STUCK, BLOCKED = "hanging", "stuck", "blocked"

#: Default of `--blocked-after`.
BLOCKED_AFTER_MS = 300_000


def attention_of(finding: Finding, as_of: int | None, blocked_after_ms: int = BLOCKED_AFTER_MS) -> str | None:
    """What a finding needs attention for; None for nothing. `finding`: with its `blocked_since`. `as_of`: the clock,
    epoch milliseconds; None where it is not known. `blocked_after_ms`: how long a last stable offset may be held."""
    if finding.verdict == HANGING:
        return HANGING
    if finding.reason == "stuck_prepare":
        return STUCK
    since = finding.blocked_since
    if finding.blocked is not False and since is not None and as_of is not None and as_of - since > blocked_after_ms:
        return BLOCKED
    return None
