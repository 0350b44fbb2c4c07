"""docs/dependencies.md has a line for each dependency of pyproject.toml, no other; docs/install.md for each extra."""

from __future__ import annotations

import re
import tomllib

from tests.docs.guide import ROOT


def declared() -> set[tuple[str, str]]:
    """Pairs of package and extra or group ("" for what is always installed), without own ones."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    project = pyproject["project"]
    groups = {"": project["dependencies"], **project["optional-dependencies"], **pyproject["dependency-groups"]}
    return {
        (name, extra)
        for extra, requirements in groups.items()
        for name in (
            re.match(r"[\w.-]+", requirement)[0] for requirement in requirements if isinstance(requirement, str)
        )  # type: ignore[index]
        if name != "kafkawire"
    }


def documented() -> dict[tuple[str, str], str]:
    table = (ROOT / "docs" / "dependencies.md").read_text("utf-8")
    found = {}
    for packages, extras, why in re.findall(r"^\| (`.*?) \|(.*?)\| (.*) \|$", table, re.MULTILINE):
        for package in re.findall(r"`([^`]+)`", packages):
            for extra in re.findall(r"`([^`]+)`", extras) or [""]:
                assert (package, extra) not in found, package
                found[package, extra] = why
    return found


def test_every_dependency_is_documented_with_a_reason() -> None:
    assert set(documented()) == declared()
    assert all(len(why) > 10 for why in documented().values())


def test_every_extra_has_its_line_on_the_install_page() -> None:
    table = (ROOT / "docs" / "install.md").read_text("utf-8").partition("| extra | for |")[2].partition("\n\n")[0]
    listed = re.findall(r"^\| `([\w-]+)` \|", table, re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert sorted(listed) == sorted(project["optional-dependencies"])
