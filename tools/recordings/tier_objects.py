"""The tier of the recording `tiered-storage` once more, in the objects of Aiven's plugin: its own classes write them.

`plain/`, `zstd/`, `encrypted/` and `encrypted-zstd/` are roots of its storage on disk, with chunks of 200 bytes.
`private.pem` unwraps the data keys of the last two; `other.pem` unwraps none.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from tools import maven
from tools.broker import jars
from tools.kept_folder import kept

from . import RecordingError
from .archive import unpacked

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


def record(folder: Path, cache: Path | None = None) -> None:
    """Makes the tiers and the keys in `folder`. The source is cloned from KAFKAWIRE_TIER_SOURCE, if that is set."""
    keep = cache or jars.cache_dir()
    kafka = jars.broker_jars(_KAFKA, cache=cache)
    libraries = kept(keep / "jars" / f"aiven-tier-libraries-{_TAG}", _fetch)
    path = f"{libraries}/*{os.pathsep}{kafka}/*"
    classes = kept(keep / f"aiven-tier-{_TAG}", lambda made: _compile(made, path))
    scratch = folder / "scratch"
    scratch.mkdir()
    _run(["javac", "-cp", f"{classes}{os.pathsep}{path}", "-d", str(scratch), str(_COPIER)])
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
        _run([jars.java(), "-cp", place, "TierObjects", str(unpacked("tiered-storage") / "tier"), *given])
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
    _run(["git", "clone", "-q", "--depth", "1", "--branch", _TAG, source, str(clone)])
    files = [str(file) for module in _MODULES for file in (clone / module / "src/main/java").rglob("*.java")]
    _run(["javac", "-nowarn", "-proc:none", "-cp", class_path, "-d", str(folder), *files])


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RecordingError(f"{command[0]}: {(done.stderr or done.stdout).strip()[-400:]}")
