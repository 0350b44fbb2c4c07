"""`tools.package_coverage`: its packages exist, and a run replaces the row of its package."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import package_coverage


def test_each_package_has_sources_and_tests() -> None:
    for package in package_coverage.PACKAGES:
        assert (package_coverage.ROOT / "kafkawire" / package).is_dir()
        assert (package_coverage.ROOT / "tests" / package).is_dir()


def test_refuses_a_name_of_no_package(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="nothing is no package with tests of its own"):
        package_coverage.main(["frames", "nothing"])
    assert capsys.readouterr() == ("", "")


@pytest.mark.slow
def test_measures_with_branches_and_replaces_the_row_of_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name, text in {
        "kafkawire/__init__.py": "",
        "kafkawire/signs/__init__.py": "def sign(x):\n    if x < 0:\n        x = -x\n    return x\n",
        "tests/signs/test_sign.py": "from kafkawire.signs import sign\ndef test_sign():\n    assert sign(-1) == 1\n",
        "CONTRIBUTING.md": "<!-- coverage -->\n| signs | old |\n| other | kept |\n<!-- /coverage -->\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(package_coverage, "ROOT", tmp_path)
    monkeypatch.setattr(package_coverage, "PAGE", tmp_path / "CONTRIBUTING.md")
    monkeypatch.setattr(package_coverage, "commit", lambda: "abc")
    assert package_coverage.main(["signs"]) == 0
    assert "2->4" in capfd.readouterr().out
    assert (tmp_path / "CONTRIBUTING.md").read_text().splitlines() == [
        "<!-- coverage -->",
        *package_coverage.HEAD,
        "| other | kept |",
        "| signs | 1 | 4 | 2 | 83.3 % | abc |",
        "<!-- /coverage -->",
    ]
