"""`abouts`: what schemas say of structs and fields is found in docstrings."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest

from kafkawire import load_schemas
from kafkawire.messages import FetchResponse, TransactionLogValue
from kafkawire.wire.abouts import about, is_title, message_title, struct_title

LONG = ("A long sentence of many words. " * 20).strip()


def test_about_is_the_docstring_of_class_and_attribute(tmp_path: Path) -> None:
    (tmp_path / "Parcel.json").write_text(
        """{"type": "data", "name": "Parcel", "validVersions": "0-1", "flexibleVersions": "none",
        "about": "What is \\"sent\\".", "fields": [
        {"name": "To", "type": "Place", "versions": "0+", "about": "Where it   goes\\u202e \\\\x.", "fields": [
          {"name": "X", "type": "int8", "versions": "0+"}]},
        {"name": "From", "type": "int8", "versions": "0+", "about": "LONG"}]}""".replace("LONG", LONG)
    )
    spec = load_schemas(tmp_path).Parcel.spec
    assert spec.about == 'What is "sent".'
    assert spec.field("To").about == "Where it goes\u202e \\x."
    assert spec.field("From").about == LONG
    assert (spec.field("To").struct.spec.about, spec.field("To").struct.spec.fields[0].about) == ("", "")


def test_packaged_messages_have_what_their_schemas_say() -> None:
    assert TransactionLogValue.spec.field("ProducerId").about == "Producer id that the id has now."
    assert FetchResponse.spec.about.startswith("Records from the offsets asked for")


def test_a_loader_without_sources_leaves_those_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under pytest, modules of a package with an entry point of pytest's have its loader of rewritten assertions."""
    path = tmp_path / "sent.py"
    path.write_text('class Sent:\n    """What is sent."""\n')
    module = types.ModuleType("sent_without_loader")
    module.__file__ = str(path)
    module.__loader__ = object()  # type: ignore[assignment]
    monkeypatch.setitem(sys.modules, "sent_without_loader", module)
    assert about(types.SimpleNamespace(__module__="sent_without_loader", __name__="Sent")) == "What is sent."


def test_there_is_no_description_where_there_is_no_source() -> None:
    assert about(None) == ""
    assert about(types.SimpleNamespace(__module__="nowhere", __name__="X")) == ""


@pytest.mark.parametrize(
    "text",
    [
        message_title("Foo", "0-3", "2+"),
        message_title("Foo", "3", "none"),
        message_title("Foo", "0-3", "1-2"),
        struct_title("Foo", "0-3"),
        struct_title("Foo", "2"),
    ],
)
def test_titles_are_no_abouts(text: str) -> None:
    assert is_title(text)
    assert not is_title(f"{text} It has a meaning.")
