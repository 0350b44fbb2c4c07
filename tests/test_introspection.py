"""Classes of messages, asked for annotations at run time, as libraries do; `test_outside.py` asks those of a wheel."""

from __future__ import annotations

from pathlib import Path

import pytest

import kafkawire
from kafkawire.messages import FetchRequest
from tests import own_schemas
from tests.outside import introspection

pytestmark = pytest.mark.slow


def test_every_class_has_annotations_and_goes_through_pickle_copy_and_msgspec() -> None:
    listed = list(introspection.classes())
    assert len(listed) > 700
    for cls in listed:
        introspection.check(cls)


def test_classes_of_schemas_loaded_at_run_time(tmp_path: Path) -> None:
    for name in (loaded := kafkawire.load_schemas(own_schemas.write(tmp_path / "schemas"))):
        introspection.check(loaded[name])


def test_pydantic() -> None:
    pytest.importorskip("pydantic")
    for cls in FetchRequest.codec.classes:
        introspection.check_pydantic(cls)
