"""Log directories and the tier of three brokers with remote storage (KIP-405), and what a consumer got.

The recording `tiered-storage`: `node-1/` to `node-3/` are log directories, `tier/` is the folder of
`LocalTieredStorage`, and `consumed.json` holds the records of both isolation levels. The leader changed in between,
DeleteRecords cut a segment, and an unclean election dropped records that the tier keeps.

The recording `tier-objects`: the same tier in the objects of Aiven's plugin, whose own classes write them. `plain/`,
`zstd/`, `encrypted/` and `encrypted-zstd/` are roots of its storage on disk, with chunks of 200 bytes. `private.pem`
unwraps the data keys of the last two; `other.pem` unwraps none.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from tools import maven
from tools.broker import RunningCluster, cluster, jars
from tools.kept_folder import kept
from tools.polling import until

from . import clients, run
from .archive import unpacked
from .cluster_clients import await_in_sync, await_leader, delete_records, place_topics, read
from .log_copies import copy_log_directory
from .log_directories import SMALL

VERSION = "4.3.1"
TOPIC = "orders"
_SECONDS = 60
_STORAGE = "org.apache.kafka.server.log.remote"
#: Settings of brokers, without the folder of the tier.
CONFIG = {
    **SMALL,
    "remote.log.storage.system.enable": "true",
    "remote.log.storage.manager.class.name": f"{_STORAGE}.storage.LocalTieredStorage",
    "remote.log.metadata.manager.class.name": f"{_STORAGE}.metadata.storage.TopicBasedRemoteLogMetadataManager",
    "remote.log.metadata.manager.listener.name": "PLAINTEXT",
    "rlmm.config.remote.log.metadata.topic.replication.factor": 3,
    "rlmm.config.remote.log.metadata.topic.num.partitions": 1,
    "remote.log.manager.task.interval.ms": 300,
    "log.retention.check.interval.ms": 300,
    "log.initial.task.delay.ms": 300,
    "log.segment.delete.delay.ms": 0,
    "replica.lag.time.max.ms": 3000,
}
_TOPIC_CONFIG = {
    "remote.storage.enable": "true",
    "local.retention.ms": "1000",
    "retention.ms": "-1",
    "segment.ms": "400",
    "min.insync.replicas": "1",
    "unclean.leader.election.enable": "true",
}


def record(folder: Path, cache: Path | None = None) -> None:
    """Makes `node-1/` to `node-3/`, `tier/` and `consumed.json` in `folder`."""
    tier = folder / "tier"
    config = CONFIG | {
        "remote.log.storage.manager.class.path": str(jars.tiered_storage_jar(VERSION, cache=cache)),
        "rsm.config.dir": str(tier),
    }
    with cluster(3, version=VERSION, config=config, cache=cache) as running:
        place_topics(running.bootstrap, {TOPIC: ((1, 2), _TOPIC_CONFIG)})
        service = clients.Service(running.bootstrap, "tiered-service")
        _write(service, range(6))
        _await_tier(running, tier)
        delete_records(running.bootstrap, TOPIC, 9)
        # Leader 2, whose segments have other borders.
        running.stop_node(1)
        _write(service, range(6, 10))
        running.start_node(1)
        await_in_sync(running.bootstrap, [TOPIC], 2)
        # Leader 1 alone: what it writes now and copies to the tier is lost to node 2.
        running.stop_node(2)
        _write(service, range(10, 14))
        _await_tier(running, tier)
        running.kill_node(1)
        running.start_node(2)
        await_leader(running.bootstrap, [TOPIC], 2)
        after = clients.Service(running.bootstrap, "another-service")
        _write(after, range(20, 26))
        running.start_node(1)
        await_in_sync(running.bootstrap, [TOPIC], 2)
        _await_tier(running, tier)
        after.begin()
        after.send(TOPIC, 0, range(300, 302), timestamp=clients.now())
        after.flush()
        consumed = {level: _consumed(running, level) for level in ("read_committed", "read_uncommitted")}
        time.sleep(6)  # brokers write their checkpoints every five seconds
        for node_id, log_dir in running.log_dirs.items():
            copy_log_directory(log_dir, folder / f"node-{node_id}")
        after.end(committed=True)
    for path in (tier, *folder.glob("node-*")):
        if not any(path.rglob("*.log")):
            shutil.rmtree(path)
    (folder / "consumed.json").write_text(json.dumps(consumed, indent=1) + "\n")


def _write(service: clients.Service, numbers: Iterable[int]) -> None:
    """A transaction a number, every third aborted; each second one begins a segment."""
    for number in numbers:
        service.begin()
        service.send(TOPIC, 0, range(10 * number, 10 * number + 3), timestamp=clients.now())
        service.flush()
        if number % 2:
            time.sleep(0.5)
            service.send(TOPIC, 0, range(10 * number + 3, 10 * number + 5), timestamp=clients.now())
        service.end(committed=number % 3 != 1)


def _await_tier(running: RunningCluster, tier: Path) -> None:
    """Waits until the leader has removed what the tier holds: few segments are left."""

    def few() -> bool | None:
        found = [
            sum(1 for _ in (node.log_dir / f"{TOPIC}-0").glob("*.log"))
            for node in running.nodes
            if node.process is not None and (node.log_dir / f"{TOPIC}-0").exists()
        ]
        return (max(found) <= 3 and any(tier.rglob("*.log"))) or None

    until(few, "copies in the tier", seconds=_SECONDS)


def _consumed(running: RunningCluster, isolation: str) -> list[dict[str, Any]]:
    return [
        {"offset": m.offset(), "key": (m.key() or b"").decode(), "value": (m.value() or b"").decode()}
        for m in read(running.bootstrap, [(TOPIC, 0)], f"{TOPIC}-{isolation}", isolation)
    ]


# Objects of Aiven's plugin --------------------------------------------------------------------------------------------

_SOURCE = "https://github.com/Aiven-Open/tiered-storage-for-apache-kafka.git"
_TAG = "v1.0.0"
#: 4.3 has other packages than those that the plugin is written for.
_KAFKA = "3.9.1"
_LIBRARIES = (
    "com.fasterxml.jackson.core:jackson-databind:2.19.0",
    "com.fasterxml.jackson.core:jackson-core:2.19.0",
    "com.fasterxml.jackson.core:jackson-annotations:2.19.0",
    "com.fasterxml.jackson.datatype:jackson-datatype-jdk8:2.19.0",
    "com.github.luben:zstd-jni:1.5.6-9",
    "com.github.ben-manes.caffeine:caffeine:3.2.0",
    "org.bouncycastle:bcprov-jdk18on:1.80",
    "commons-io:commons-io:2.19.0",
    "com.bucket4j:bucket4j_jdk11-core:8.14.0",
)
_MODULES = ("commons", "storage/core", "storage/filesystem", "core")
_COPIER = Path(__file__).parent / "TierObjects.java"
_ZSTD = {"compression.enabled": "true"}
_ENCRYPTED = {"encryption.enabled": "true", "encryption.key.pair.id": "pair-1", "encryption.key.pairs": "pair-1"}
#: Folder of a tier -> the plugin's configuration.
TIERS = {"plain": {}, "zstd": _ZSTD, "encrypted": _ENCRYPTED, "encrypted-zstd": _ZSTD | _ENCRYPTED}


def record_objects(folder: Path, cache: Path | None = None) -> None:
    """Makes the tiers and the keys in `folder`. The source is cloned from KAFKAWIRE_TIER_SOURCE, if that is set."""
    keep = cache or jars.cache_dir()
    kafka = jars.broker_jars(_KAFKA, cache=cache)
    libraries = kept(keep / "jars" / f"aiven-tier-libraries-{_TAG}", _fetch)
    path = f"{libraries}/*{os.pathsep}{kafka}/*"
    classes = kept(keep / f"aiven-tier-{_TAG}", lambda made: _compile(made, path))
    scratch = folder / "scratch"
    scratch.mkdir()
    run(["javac", "-cp", f"{classes}{os.pathsep}{path}", "-d", str(scratch), str(_COPIER)])
    private = _key(folder / "private.pem")
    _key(folder / "other.pem")
    public = scratch / "public.pem"
    public.write_bytes(private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    keys = {"public.key.file": public, "private.key.file": folder / "private.pem"}
    for name, config in TIERS.items():
        (folder / name).mkdir()
        settings = {
            "chunk.size": 200,
            "storage.backend.class": "io.aiven.kafka.tieredstorage.storage.filesystem.FileSystemStorage",
            "storage.root": folder / name,
            **config,
            **{f"encryption.key.pairs.pair-1.{key}": place for key, place in keys.items() if "encrypted" in name},
        }
        given = [f"{setting}={value}" for setting, value in settings.items()]
        place = os.pathsep.join((str(scratch), str(classes), path))
        run([jars.java(), "-cp", place, "TierObjects", str(unpacked("tiered-storage") / "tier"), *given])
    for made in (*scratch.iterdir(),):
        made.unlink()
    scratch.rmdir()


def _key(path: Path) -> rsa.RSAPrivateKey:
    key = rsa.generate_private_key(65537, 2048)
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return key


def _fetch(folder: Path) -> None:
    for artifact in _LIBRARIES:
        maven.run(["dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={folder}"], "Aiven's plugin")


def _compile(folder: Path, class_path: str) -> None:
    clone = folder.parent / "source"
    source = os.environ.get("KAFKAWIRE_TIER_SOURCE", _SOURCE)
    run(["git", "clone", "-q", "--depth", "1", "--branch", _TAG, source, str(clone)])
    files = [str(file) for module in _MODULES for file in (clone / module / "src/main/java").rglob("*.java")]
    run(["javac", "-nowarn", "-proc:none", "-cp", class_path, "-d", str(folder), *files])
