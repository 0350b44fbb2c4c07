"""The table of what is fuzzed: every parser of kafkawire, one module for each package.

Where two implementations of something exist, a check asks both, with the comparisons of the test suite.
"""

from __future__ import annotations

from tools.fuzz.target import FuzzTarget
from tools.fuzz.targets import (
    brokers,
    captures,
    commands,
    journals,
    logins,
    logs,
    messages,
    records,
    schemas,
    tiered_replicas,
    tls,
)  # fmt: skip

_MODULES = (
    messages, schemas, records, logs, tiered_replicas, captures, tls, logins, brokers, journals, commands,
)  # fmt: skip
TARGETS: dict[str, FuzzTarget] = {target.name: target for module in _MODULES for target in module.TARGETS}
