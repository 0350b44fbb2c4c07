"""`registry`: the entries of a namespace. (How `lookup` finds them is in `tests/test_lookup.py`.)"""

from __future__ import annotations

import pytest

from kafkawire.messages import REGISTRY, FetchRequest
from kafkawire.wire.registry import Entry, Registry

OLD = Entry("Old", "old", "data", "f", 5, 2, 4, 3, ("Older",))
ONE = Entry("One", "one", "request", "f", 5, 0, 0, -1)
NONE = Entry("None", "none", "header", "f", None, 0, 1, -1)
HIGH = Entry("High", "high", "request", "f", 30_000, 0, 0, -1)


def test_an_entry_says_what_its_message_does() -> None:
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
