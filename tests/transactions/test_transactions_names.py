"""The names of `kafkawire.transactions`, which are imported on first use."""

from __future__ import annotations

from importlib import import_module

import pytest

from kafkawire import transactions


def test_every_name_is_there() -> None:
    homes = {name: module for module, names in transactions._NAMES.items() for name in names.split()}
    assert set(homes) == set(transactions.__all__) <= set(dir(transactions))
    for name in transactions.__all__:
        home = import_module(f"kafkawire.transactions.{homes[name]}")
        assert getattr(transactions, name) is getattr(home, name)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        transactions.nothing  # noqa: B018
