"""The engines behind columns of records, for tests that run on each of them."""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.records import object_columns
from kafkawire.wire.backend import native

ENGINES: list[Any] = [pytest.param(object_columns, id="python")]
if native is not None:
    ENGINES.append(pytest.param(native, id="native"))
