"""A pytest plugin with the fixture `mock_broker`: name it in `pytest_plugins` of a conftest.py."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafkawire.testing.mock_broker import MockBroker


@pytest.fixture
def mock_broker() -> Iterator[MockBroker]:
    """A running broker without topics, a new one for each test; a Metadata request creates the topics that it names."""
    with MockBroker() as broker:
        yield broker
