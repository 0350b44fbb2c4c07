"""`positions`: lines and columns of values in JSON, against a search for marks."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.codegen.positions import find_positions

TEXT = """{
  "name": "Foo",  "list": [1,
     {"a": {"b\\"c": 2}}, []],
  "name2": {"x": "} ] , {"}
}"""


@pytest.mark.parametrize(
    ("path", "position"),
    [
        ("", (1, 1)),
        ("name", (2, 11)),
        ("list", (2, 27)),
        ("list[0]", (2, 28)),
        ("list[1]", (3, 6)),
        ("list[1].a", (3, 12)),
        ("list[2]", (3, 26)),
        ("name2.x", (4, 18)),
        ("name2.y", None),
        ("list[3]", None),
        ("name[0]", None),
        ("name.x", None),
    ],
)
def test_finds_values_by_path(path: str, position: tuple[int, int] | None) -> None:
    assert find_positions(TEXT, [path]) == ({} if position is None else {path: position})


def test_text_that_is_not_there_has_no_positions() -> None:
    assert find_positions("", ["", "name"]) == {}


def test_text_after_the_first_value_is_not_read() -> None:
    assert find_positions('{"a": 1} {"b": 2}', ["a", "b"]) == {"a": (1, 7)}


JSON = st.recursive(
    st.integers() | st.text() | st.booleans() | st.none(),
    lambda inner: st.lists(inner) | st.dictionaries(st.from_regex(r"[A-Za-z]\w*", fullmatch=True), inner),
    max_leaves=20,
)


def paths_of(value: Any, path: str = "") -> dict[str, Any]:
    out = {path: value}
    if isinstance(value, dict):
        for key, inner in value.items():
            out |= paths_of(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            out |= paths_of(inner, f"{path}[{index}]")
    return out


@pytest.mark.slow
@given(value=st.dictionaries(st.from_regex(r"[A-Za-z]\w*", fullmatch=True), JSON), indent=st.sampled_from([None, 0, 2]))
def test_every_value_begins_at_its_position(value: Any, indent: int | None) -> None:
    text = json.dumps(value, indent=indent)
    lines = text.split("\n")
    wanted = paths_of(value)
    found = find_positions(text, wanted)
    assert found.keys() == wanted.keys()
    for path, (line, column) in found.items():
        rest = "\n".join([lines[line - 1][column - 1 :], *lines[line:]])
        assert json.JSONDecoder().raw_decode(rest)[0] == wanted[path]
