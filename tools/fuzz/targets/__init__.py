"""The table of what is fuzzed: every parser of the package, a module a room.

Where two implementations of something exist, a check asks both, with the comparisons of the test suite.
"""

from __future__ import annotations

import sys
from pathlib import Path

_TESTS = Path(__file__).parents[3] / "tests"
for _folder in (_TESTS, _TESTS / "wire", _TESTS / "records", _TESTS / "capture"):
    if str(_folder) not in sys.path:
        sys.path.append(str(_folder))

from tools.fuzz.target import FuzzTarget  # noqa: E402 (the tests' helpers are imported by their bare names)
from tools.fuzz.targets import (  # noqa: E402
    brokers,
    captures,
    commands,
    journals,
    logins,
    logs,
    messages,
    records,
    schemas,
    tiers,
    tls,
)

TARGETS: dict[str, FuzzTarget] = {
    target.name: target
    for room in (messages, schemas, records, logs, tiers, captures, tls, logins, brokers, journals, commands)
    for target in room.TARGETS
}
