"""tools.broker.storage: log directories as copies of one that Kafka's storage tool has formatted."""

from __future__ import annotations

from pathlib import Path

from tools.broker.storage import StorageTemplate

META = "#\n#a date\nnode.id=1\ndirectory.id=first\nversion=1\ncluster.id=old\n"


def formatted(folder: Path, meta: str = META) -> Path:
    log_dir = folder / "formatted"
    (log_dir / "__cluster_metadata-0").mkdir(parents=True)
    (log_dir / "__cluster_metadata-0" / "0.checkpoint").write_bytes(b"features")
    (log_dir / "meta.properties").write_text(meta)
    return log_dir


def properties(log_dir: Path) -> dict[str, str]:
    lines = (log_dir / "meta.properties").read_text().splitlines()
    return {name: value for name, _, value in (line.partition("=") for line in lines) if value}


def test_a_copy_has_the_files_and_ids_of_its_own(tmp_path: Path) -> None:
    template = StorageTemplate(tmp_path / "jars", {})
    assert not template.exists
    template.keep(formatted(tmp_path))
    assert StorageTemplate(tmp_path / "jars", {}).exists
    nodes = [tmp_path / "node-2", tmp_path / "node-3"]
    for number, log_dir in enumerate(nodes, 2):
        template.copy(log_dir, node_id=number, cluster_id="new")
        assert (log_dir / "__cluster_metadata-0" / "0.checkpoint").read_bytes() == b"features"
    second, third = map(properties, nodes)
    assert len({"first", second.pop("directory.id"), third.pop("directory.id")}) == 3
    assert second == {"node.id": "2", "version": "1", "cluster.id": "new"}
    assert third == {"node.id": "3", "version": "1", "cluster.id": "new"}


def test_a_release_without_directory_ids_gets_none(tmp_path: Path) -> None:
    template = StorageTemplate(tmp_path / "jars", {})
    template.keep(formatted(tmp_path, "version=1\nnode.id=1\ncluster.id=old\n"))
    template.copy(tmp_path / "node-1", node_id=1, cluster_id="new")
    assert properties(tmp_path / "node-1") == {"version": "1", "node.id": "1", "cluster.id": "new"}


def test_each_release_and_each_set_of_features_has_a_template(tmp_path: Path) -> None:
    StorageTemplate(tmp_path / "4.4.0", {"a": 1, "b": 2}).keep(formatted(tmp_path))
    assert StorageTemplate(tmp_path / "4.4.0", {"b": 2, "a": 1}).exists
    assert not StorageTemplate(tmp_path / "4.4.0", {"a": 1}).exists
    assert not StorageTemplate(tmp_path / "4.3.0", {"a": 1, "b": 2}).exists


def test_properties_that_the_storage_tool_reads_need_the_tool() -> None:
    assert StorageTemplate.fits({"num.partitions": 3})
    assert not StorageTemplate.fits({"log.dirs": "/data"})
    assert not StorageTemplate.fits({"num.partitions": 3, "inter.broker.protocol.version": "3.5"})
