"""Folders, and links to folders."""

from __future__ import annotations

import os
from pathlib import Path

from kafkawire import logdir
from kafkawire.logdir.folders import Links, Listing, listings
from kafkawire.transactions.parts.replica_files import replicas


def partition(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / f"{0:020}.log").touch()
    return folder


def found(top: Path) -> list[str]:
    return [os.path.relpath(one.path, top) for one in listings(str(top), Links(str(top))) if isinstance(one, Listing)]


def read(*paths: Path) -> list[str]:
    """The folders of the replicas to read."""
    return [one.path for one in replicas(logdir.open(*paths))]


def test_a_link_to_a_folder_is_followed(tmp_path: Path) -> None:
    partition(tmp_path / "disk" / "elsewhere")
    top = tmp_path / "broker-1"
    partition(top / "orders-1")
    (top / "orders-0").symlink_to(tmp_path / "disk" / "elsewhere")
    assert found(top) == ["orders-0", "orders-1"]
    assert [one.topic for one in logdir.open(top).partitions] == ["orders", "orders"]


def test_a_log_directory_behind_a_link_is_followed(tmp_path: Path) -> None:
    partition(tmp_path / "disk" / "broker-1" / "orders-0")
    (tmp_path / "fleet").mkdir()
    (tmp_path / "fleet" / "broker-1").symlink_to(tmp_path / "disk" / "broker-1")
    assert read(tmp_path / "fleet") == [str(tmp_path / "fleet" / "broker-1" / "orders-0")]


def test_links_that_lead_back_end(tmp_path: Path) -> None:
    top = tmp_path / "fleet" / "broker-1"
    partition(top / "orders-0")
    (top / "up").symlink_to("..")
    (top / "root").symlink_to("/")
    (top / "self-0").symlink_to(".")
    (top / "orders-0" / "orders-7").symlink_to(top / "orders-0")
    away = tmp_path / "away"
    away.mkdir()
    (away / "orders-8").symlink_to(away)
    (away / "back-9").symlink_to(top)
    (top / "away-1").symlink_to(away)
    assert read(tmp_path / "fleet") == [str(top / "orders-0")]


def test_folders_that_link_to_each_other_are_listed_once_each(tmp_path: Path) -> None:
    """Paths through them are more than can be counted."""
    folders = [tmp_path / "away" / f"f-{n}" for n in range(30)]
    for folder in folders:
        partition(folder)
    for folder in folders:
        for n, other in enumerate(folders):
            (folder / f"t-{n}").symlink_to(other)
    (tmp_path / "top").mkdir()
    (tmp_path / "top" / "first").symlink_to(folders[0])
    assert len(found(tmp_path / "top")) == len(folders)


def test_a_link_under_a_partition_s_name_has_its_log_directory(tmp_path: Path) -> None:
    """The folder may be below the same path: the checkpoints that name it are beside the link."""
    partition(tmp_path / "a-store" / "orders-0")
    (tmp_path / "broker-1").mkdir()
    (tmp_path / "broker-1" / "orders-0").symlink_to(tmp_path / "a-store" / "orders-0")
    assert read(tmp_path) == [str(tmp_path / "broker-1" / "orders-0")]


def test_what_leads_nowhere_and_what_is_empty_is_named(tmp_path: Path) -> None:
    partition(tmp_path / "orders-0")
    (tmp_path / "orders-1").symlink_to("gone")
    (tmp_path / "orders-2").symlink_to("orders-2")
    (tmp_path / "orders-3").mkdir()
    (tmp_path / "empty").mkdir()
    unreadable = {os.path.basename(one.path): one.reason for one in logdir.open(tmp_path).unreadable}
    assert unreadable == {
        "orders-1": "a link to what is not there",
        "orders-2": "a link to what is not there",
        "orders-3": "it is empty, and its name is a partition's",
    }
