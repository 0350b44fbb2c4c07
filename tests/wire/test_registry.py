"""`registry`: the entries of a namespace. (How `lookup` finds them is in `tests/test_lookup.py`.)"""

from __future__ import annotations

import pytest

from kafkawire.messages import REGISTRY, FetchRequest
from kafkawire.wire import registry as registries
from kafkawire.wire.message import Message
from kafkawire.wire.registry import Entry, Registry

OLD = Entry("Old", "old", "data", "f", 5, 2, 4, 3, ("Older",))
ONE = Entry("One", "one", "request", "f", 5, 0, 0, -1)
NONE = Entry("None", "none", "header", "f", None, 0, 1, -1)
HIGH = Entry("High", "high", "request", "f", 30_000, 0, 0, -1)


def test_an_entry_has_the_versions_and_key_of_its_message() -> None:
    assert OLD.valid_versions == range(2, 5)
    assert ONE.valid_versions == range(1)
    for entry in REGISTRY:
        if entry.name.startswith("Fetch"):
            spec = REGISTRY.load(entry).spec
            assert (entry.valid_versions, entry.api_key, entry.kind) == (spec.valid_versions, spec.api_key, spec.kind)


def test_entries_are_found_by_name_older_name_and_key() -> None:
    registry = Registry("nowhere", (OLD, ONE, NONE, HIGH))
    assert list(registry) == [OLD, ONE, NONE, HIGH]
    assert registry.find(int("30000")) == registry.find(int("30000"), family="f") == HIGH
    assert registry.entry("Old") == registry.entry("Older") == registry.find(5, "data", "f") == OLD
    assert registry.find(5, "request") == ONE
    with pytest.raises(
        LookupError, match=r"^api key 5, family f is ambiguous: Old \(f\), One \(f\); give kind and family$"
    ):
        registry.find(5, family="f")
    with pytest.raises(LookupError, match=r"^no message has api key 6$"):
        registry.find(6)
    with pytest.raises(LookupError, match=r"^no message is named 'Xyz'$"):
        registry.entry("Xyz")


def test_a_packages_attributes() -> None:
    assert REGISTRY.attribute("FetchRequest") is FetchRequest
    with pytest.raises(AttributeError, match=r"^module 'kafkawire.messages' has no attribute 'ListOffsetRequest'$"):
        REGISTRY.attribute("ListOffsetRequest")  # an older name is none of Python's


def test_a_registry_over_another_replaces_names_aliases_and_api_keys() -> None:
    below = Registry("below", (OLD, ONE, NONE))
    mine = One, Six = (
        Entry("One", "mine", "request", "f", 6, 0, 3, -1),
        Entry("Six", "six", "data", "f", 5, 0, 0, -1, ("Older",)),
    )
    both = Registry("mine", mine).over(below)
    assert {entry.name for entry in both} == {"Old", "One", "None", "Six"}
    assert len(both) == 4
    assert both.entry("One") == One
    assert both.entry("Older") == both.find(5, "data", "f") == Six
    assert both.entry("Old") == OLD
    with pytest.raises(LookupError, match="no message has api key 5, kind request"):
        both.find(5, "request")  # One has the key 6 now
    assert below.find(5, "request") == ONE


def test_layers_load_each_message_from_its_own_package() -> None:
    class Mine(Message, frozen=True):
        pass

    entry = REGISTRY.entry("FetchRequest")
    mine = Registry("", (entry,), {"FetchRequest": Mine})
    once = mine.over(REGISTRY)
    twice = Registry("", ()).over(once)
    for registry in (once, twice):
        assert registry.load(registry.entry("FetchRequest")) is Mine
        assert registry.rpc(1, "request") is Mine
        assert registry.rpc(1, "response") is REGISTRY.load(REGISTRY.entry("FetchResponse"))
        assert registry.rpc(9001, "request") is None
    assert REGISTRY.rpc(1, "request") is FetchRequest


def test_a_class_is_imported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records of internal topics look one up each."""
    entry = REGISTRY.entries["FetchRequest"]
    found = REGISTRY.load(entry)
    monkeypatch.setattr(registries, "import_module", None)
    assert REGISTRY.load(entry) is found
