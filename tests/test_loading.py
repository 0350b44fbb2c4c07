"""`load_schemas`: the namespace that it returns. Its codecs are tested with those of generated packages."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

import kafkawire
from kafkawire.errors import SchemaError


def schema(name: str) -> str:
    fields = [{"name": "Id", "type": "int32", "versions": "0+"}]
    return json.dumps(
        {"name": name, "type": "data", "validVersions": "0", "flexibleVersions": "none", "fields": fields}
    )


def test_loaded_messages_are_found_by_name(tmp_path: Path) -> None:
    (tmp_path / "Second.json").write_text(schema("Second"))
    (tmp_path / "First.json").write_text(schema("First"))
    loaded = kafkawire.load_schemas(tmp_path)
    assert list(loaded) == loaded.__all__ == ["First", "Second"]
    assert len(loaded) == 2
    assert {"First", "Second"} <= set(dir(loaded))
    assert loaded.First is loaded["First"]
    assert loaded.First.spec.name == "First"
    assert loaded.First.decode(loaded.First(id=5).encode(0), 0) == loaded.First(id=5)
    with pytest.raises(AttributeError, match="no message is named 'Third'; there are First, Second"):
        _ = loaded.Third
    with pytest.raises(KeyError):
        _ = loaded["Third"]


def test_each_call_makes_separate_classes_that_can_be_pickled(tmp_path: Path) -> None:
    (tmp_path / "First.json").write_text(schema("First"))
    one, other = kafkawire.load_schemas(str(tmp_path)), kafkawire.load_schemas(tmp_path)
    assert one.First is not other.First
    assert one.First(id=5) != other.First(id=5)
    value = one.First(id=5)
    assert pickle.loads(pickle.dumps(value)) == value


def test_schema_error_lists_the_mistakes_of_all_files(tmp_path: Path) -> None:
    (tmp_path / "A.json").write_text("{")
    (tmp_path / "B.json").write_text("[]")
    with pytest.raises(SchemaError) as caught:
        kafkawire.load_schemas(tmp_path)
    assert [problem.file for problem in caught.value.problems] == ["A.json", "B.json"]


def test_warns_of_versions_that_no_message_has(tmp_path: Path) -> None:
    schema = {"name": "Foo", "type": "data", "validVersions": "0-1", "flexibleVersions": "none"}
    schema["fields"] = [{"name": "One", "type": "int32", "versions": "0-3"}]  # type: ignore[assignment]
    (tmp_path / "Foo.json").write_text(json.dumps(schema))
    with pytest.warns(UserWarning, match=r"Foo\.json: line 1, .* never sent in 2-3"):
        kafkawire.load_schemas(tmp_path)
