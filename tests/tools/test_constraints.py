"""constraints.txt: one version of everything that pyproject.toml asks for, on every Python that it supports."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PINS = [
    Requirement(line)
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    if not line.lstrip().startswith("#")
]
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]


def on(python: str) -> dict[str, str]:
    return {**default_environment(), "python_version": python, "python_full_version": f"{python}.9"}


def wanted() -> Iterator[tuple[Requirement, str]]:
    project = PROJECT["project"]
    extras, groups = project["optional-dependencies"], PROJECT["dependency-groups"]
    lists = [PROJECT["build-system"]["requires"], project["dependencies"], *extras.values(), *groups.values()]
    for requirement in {Requirement(text) for texts in lists for text in texts if isinstance(text, str)}:
        for python in PYTHONS:
            if requirement.name != project["name"] and (
                not requirement.marker or requirement.marker.evaluate(on(python))
            ):
                yield requirement, python


def test_every_requirement_has_one_version_that_it_allows() -> None:
    for requirement, python in wanted():
        named = [pin for pin in PINS if canonicalize_name(pin.name) == canonicalize_name(requirement.name)]
        pins = [pin for pin in named if pin.marker is None or pin.marker.evaluate(on(python))]
        assert len(pins) == 1, f"{requirement.name} has {len(pins)} versions on Python {python}: make constraints"
        (specifier,) = pins[0].specifier
        assert specifier.operator == "=="
        assert specifier.version in requirement.specifier, f"{requirement.name}: make constraints"


def test_names_no_package_index() -> None:
    assert "://" not in (ROOT / "constraints.txt").read_text(encoding="utf-8")
