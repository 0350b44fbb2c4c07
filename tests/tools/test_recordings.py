"""tools.recordings: archives give back the files that were packed, and the committed ones can be unpacked."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tools.recordings import archive


def files_of(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "folder"
    (made / "orders-0").mkdir(parents=True)
    (made / "empty-0").mkdir()
    (made / "orders-0" / "0.log").write_bytes(bytes(range(256)) * 40)
    (made / "meta.properties").write_text("node.id=1\n")
    return made


def test_unpacked_files_equal_packed_ones(folder: Path, tmp_path: Path) -> None:
    archive.pack(folder, tmp_path / "a.tar.xz")
    archive.unpack(tmp_path / "a.tar.xz", tmp_path / "again")
    assert files_of(tmp_path / "again") == files_of(folder)
    assert (tmp_path / "again" / "empty-0").is_dir()


@pytest.mark.slow
def test_same_files_give_same_archive_whatever_their_times(folder: Path, tmp_path: Path) -> None:
    archive.pack(folder, tmp_path / "a.tar.xz")
    os.utime(folder / "meta.properties", (1, 1))
    (folder / "meta.properties").chmod(0o600)
    archive.pack(folder, tmp_path / "b.tar.xz")
    assert (tmp_path / "a.tar.xz").read_bytes() == (tmp_path / "b.tar.xz").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(p.name.removesuffix(archive.SUFFIX) for p in archive.ARCHIVES.glob("*.tar.xz")))
def test_committed_archive_is_packed_as_pack_does(name: str, tmp_path: Path) -> None:
    folder = archive.unpacked(name)
    assert folder == archive.unpacked(name)
    assert any(one.suffix in (".log", ".pcap", ".pcapng", ".gz") for one in folder.glob("**/*"))
    archive.pack(folder, tmp_path / "again.tar.xz")
    archive.unpack(tmp_path / "again.tar.xz", tmp_path / "again")
    assert files_of(tmp_path / "again") == files_of(folder)


def test_every_recording_has_an_archive() -> None:
    pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
    from tools.recordings.__main__ import ARCHIVES

    assert {name + archive.SUFFIX for name in ARCHIVES} == {p.name for p in archive.ARCHIVES.glob("*.tar.xz")}
