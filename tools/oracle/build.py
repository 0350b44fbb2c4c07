"""The oracle's class path: libraries by Maven, Kafka's jars of a release, and its own classes, compiled once by javac.

All of it is kept in the cache folder; what is there is used without Maven, a compiler or a network.
"""

from __future__ import annotations

import fcntl
import hashlib
import subprocess
from collections.abc import Callable
from pathlib import Path

from tools import maven
from tools.broker.jars import cache_dir
from tools.import_schemas import schema_jars
from tools.kept_folder import kept

_HERE = Path(__file__).parent
_COMPILED_AGAINST = "4.4.0"


class OracleUnavailableError(Exception):
    """No Java, no Maven, or no jars: the message names what is missing."""


def artifacts(release: str) -> list[str]:
    """The artifacts whose messages are compared: all that hold schemas, but of older releases the client's alone."""
    every = [artifact.name for artifact in schema_jars.ARTIFACTS]
    if release.startswith("4."):
        return every
    if release.startswith(("3.8.", "3.9.")):  # whose share groups, where there are any, live with the other groups
        return [name for name in every if name != "kafka-share-coordinator"]
    return ["kafka-clients"]


def class_path(release: str, extra: list[Path] | None = None) -> list[Path]:
    """Folders and jars to run the oracle on a release, and with it on the jars in `extra`.

    Raises OracleUnavailableError.
    """
    cache = cache_dir()
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / ".oracle-lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # test processes begin together, and Maven writes jars in place
        return [_classes(), *sorted(_libraries().glob("*.jar")), *_kafka(release), *(extra or [])]


def _kafka(release: str) -> list[Path]:
    wanted = artifacts(release)
    folder = cache_dir() / "jars"
    try:
        schema_jars.fetch(folder, [(name, release) for name in wanted])
    except schema_jars.JarError as error:
        raise OracleUnavailableError(str(error)) from error
    return [schema_jars.find(folder, name, release) for name in wanted]


def _libraries() -> Path:
    pom = _HERE / "pom.xml"

    def fill(folder: Path) -> None:
        goals = [f"-DoutputDirectory={folder}", "dependency:copy-dependencies"]
        try:
            maven.run(goals, "the oracle's libraries", pom.read_text("utf-8"))
        except maven.MavenError as error:
            raise OracleUnavailableError(str(error)) from None

    return _kept("libraries", [pom], fill)


def _classes() -> Path:
    sources = sorted((_HERE / "src").rglob("*.java"))
    return compiled("classes", sources, [*_libraries().glob("*.jar"), *_kafka(_COMPILED_AGAINST)])


def compiled(kind: str, sources: list[Path], against: list[Path]) -> Path:
    """The folder of classes that javac makes of these sources, kept under `kind` and their digest.

    Raises OracleUnavailableError.

    Args:
        kind: name of the folder. `sources`: Java files. `against`: jars and folders of the class path.
    """
    path = ":".join(map(str, against))

    def fill(folder: Path) -> None:
        _javac(["--release", "17", "-cp", path, "-d", str(folder), *map(str, sources)])

    return _kept(kind, sources, fill)


def _kept(kind: str, sources: list[Path], fill: Callable[[Path], None]) -> Path:
    """The folder that `fill` makes of these sources, named after their digest."""
    digest = hashlib.sha256(b"\0".join(source.read_bytes() for source in sources)).hexdigest()[:12]
    return kept(cache_dir() / "oracle" / f"{kind}-{digest}", fill)


def _javac(words: list[str]) -> None:
    try:
        done = subprocess.run(["javac", *words], capture_output=True, text=True, check=False)
    except OSError as error:
        raise OracleUnavailableError(f"cannot run javac: {error.strerror}") from error
    if done.returncode:
        output = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise OracleUnavailableError("javac failed: " + "\n".join(output[:20]))
