"""`tools.room_coverage`: its rooms exist, and a run replaces the row of its room."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import room_coverage


def test_each_room_has_sources_and_tests() -> None:
    for room in room_coverage.ROOMS:
        assert (room_coverage.ROOT / "kafkawire" / room).is_dir()
        assert (room_coverage.ROOT / "tests" / room).is_dir()


def test_refuses_a_name_of_no_room(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="nothing is no room with tests of its own"):
        room_coverage.main(["frames", "nothing"])
    assert capsys.readouterr() == ("", "")


@pytest.mark.slow
def test_measures_with_branches_and_replaces_the_row_of_the_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name, text in {
        "kafkawire/__init__.py": "",
        "kafkawire/room/__init__.py": "def sign(x):\n    if x < 0:\n        x = -x\n    return x\n",
        "tests/room/test_sign.py": "from kafkawire.room import sign\ndef test_sign():\n    assert sign(-1) == 1\n",
        "CONTRIBUTING.md": "<!-- coverage -->\n| room | old |\n| other | kept |\n<!-- /coverage -->\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(room_coverage, "ROOT", tmp_path)
    monkeypatch.setattr(room_coverage, "PAGE", tmp_path / "CONTRIBUTING.md")
    monkeypatch.setattr(room_coverage, "commit", lambda: "abc")
    assert room_coverage.main(["room"]) == 0
    assert "2->4" in capfd.readouterr().out
    assert (tmp_path / "CONTRIBUTING.md").read_text().splitlines() == [
        "<!-- coverage -->",
        *room_coverage.HEAD,
        "| other | kept |",
        "| room | 1 | 4 | 2 | 83.3 % | abc |",
        "<!-- /coverage -->",
    ]
