"""A pytest plugin with the fixture `mock_broker`, which pytest finds by the package's entry point `kafkawire`.

`-p no:kafkawire` leaves it out. Nothing of the package is imported before a test asks for the fixture.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kafkawire.testing.mock_broker import MockBroker


@pytest.fixture
def mock_broker() -> Iterator[MockBroker]:
    """A running broker without topics, a new one for each test; a Metadata request creates the topics that it names."""
    from kafkawire.testing.mock_broker import MockBroker

    with MockBroker() as broker:
        yield broker
