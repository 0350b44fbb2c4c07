"""Kafka's jars, fetched once with Maven and kept in a cache folder.

A folder of jars is complete or absent: it is filled under another name and renamed when Maven has succeeded. Its name
holds a digest of the POM that filled it, so an edited POM fills another folder. A folder that is there is used without
Maven and without a network.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tools import maven
from tools.kept_folder import kept

from .errors import BrokerUnavailableError

BROKER_VERSION = "4.4.0"
TOOLS_VERSION = "4.3.1"
MIN_JAVA = 17

_SPARK_KAFKA = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.0",
)

#: The newest Spark for which there are builds of both Delta and Iceberg, and these.
LAKE_SPARK = ("pyspark==4.1.4", "py4j==0.10.9.9")
#: The libraries that read tables of Delta and of Iceberg without Spark.
LAKE_READERS = (
    "deltalake==1.6.6",
    "arro3-core==0.9.1",
    "Deprecated==1.3.1",
    "pyiceberg==0.12.0",
    "cachetools==8.0.2",
    "fsspec==2026.9.0",
    "mmh3==5.3.1",
    "pyroaring==1.2.0",
    "strictyaml==1.7.3",
    "tenacity==9.2.1",
)
_LAKE = (
    "io.delta:delta-spark_4.1_2.13:4.4.0",
    "io.delta:delta-storage:4.4.0",
    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
)

_KEY_LOG_AGENT = "name.neykov:extract-tls-secrets:4.0.0"

_POM = (
    '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>kafkawire</groupId>'
    "<artifactId>resolved</artifactId><version>1</version><packaging>pom</packaging>"
    "<dependencies>{dependencies}</dependencies></project>"
)
_LOGGING = {"groupId": "org.apache.logging.log4j", "artifactId": "log4j-slf4j-impl", "version": "2.25.5"}

_HERE = Path(__file__).parent
_LOG4J2_SINCE = 4
_KRAFT_SINCE = 3
_RELEASE = re.compile(r"[0-9]{1,4}(\.[0-9]{1,4}){1,3}(-[\w-]{1,40})?", re.ASCII)


def cache_dir() -> Path:
    """Where jars are kept: `KAFKAWIRE_CACHE`, else `kafkawire` in `XDG_CACHE_HOME` or `~/.cache`."""
    if own := os.environ.get("KAFKAWIRE_CACHE"):
        return Path(own).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "kafkawire"


def java() -> str:
    """The path of a `java` that Kafka 4 runs on (`JAVA_HOME`, else `PATH`).

    Raises BrokerUnavailableError if there is none or it is older than Java 17.
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin") if home else None)
    if found is None:
        raise BrokerUnavailableError(
            f"no java in {home + '/bin' if home else 'PATH'}: Kafka needs Java {MIN_JAVA} or newer"
        )
    version = _java_version(found, os.stat(found).st_mtime_ns)
    if version < MIN_JAVA:
        raise BrokerUnavailableError(f"{found} is Java {version}: Kafka needs Java {MIN_JAVA} or newer")
    return found


@functools.cache
def _java_version(path: str, _modified_ns: int) -> int:
    """Determined once a process: it takes the start of a JVM."""
    printed = subprocess.run([path, "-version"], capture_output=True, text=True, check=False)
    version = re.search(r'version "(?:1\.)?(\d+)', printed.stderr + printed.stdout)
    if printed.returncode != 0 or version is None:
        raise BrokerUnavailableError(f"{path} -version fails: {(printed.stderr or printed.stdout).strip()[-200:]}")
    return int(version[1])


def broker_jars(version: str = BROKER_VERSION, *, cache: Path | None = None) -> Path:
    """The folder with a broker's jars, fetched if it is not there. Raises BrokerUnavailableError."""
    pom = "broker" if _major(version) >= _LOG4J2_SINCE else "broker-log4j1"
    return _fetch(pom, version, cache or cache_dir())


def needs_zookeeper(version: str) -> bool:
    """Whether the brokers of a release are run with ZooKeeper; later ones are their own controllers (KRaft)."""
    return _major(version) < _KRAFT_SINCE


def _major(version: str) -> int:
    if not _RELEASE.fullmatch(version):
        raise BrokerUnavailableError(f"{version!r} is no release of Kafka")
    return int(version.partition(".")[0])


def tools_jars(version: str = TOOLS_VERSION, *, cache: Path | None = None) -> Path:
    """The folder with the jars of Kafka's command line tools, as `broker_jars`. Raises BrokerUnavailableError."""
    return _fetch("tools", version, cache or cache_dir())


def spark_kafka_jars() -> Path:
    """The folder with Spark's Kafka source and what it needs, as `broker_jars`. Raises BrokerUnavailableError.

    Each jar is fetched alone: the parents of Spark's POMs name repositories that need not be reachable.
    """
    return _listed("spark-kafka", "Spark's Kafka source", _SPARK_KAFKA)


def lake_jars() -> Path:
    """The folder with Delta and Iceberg for `LAKE_SPARK`, as `broker_jars`. Raises BrokerUnavailableError."""
    return _listed("spark-lake", "Delta and Iceberg", _LAKE)


def _listed(name: str, what: str, artifacts: Sequence[str]) -> Path:
    digest = hashlib.sha256(" ".join(artifacts).encode()).hexdigest()[:8]
    folder = cache_dir() / "jars" / f"{name}-{digest}"
    return _filled(folder, what, [_copied(artifact) for artifact in artifacts])


def lake_spark() -> Path:
    """The folder with the packages `LAKE_SPARK`, fetched with pip if it is not there; in front of `PYTHONPATH` they
    take the place of this environment's PySpark. Raises BrokerUnavailableError.
    """
    return _packages(LAKE_SPARK)


def lake_readers() -> Path:
    """The folder with the packages `LAKE_READERS`, as `lake_spark`; what else they need this environment has."""
    return _packages(LAKE_READERS)


def _packages(wanted: Sequence[str]) -> Path:
    def fill(packages: Path) -> None:
        pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(packages), *wanted]
        done = subprocess.run(pip, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BrokerUnavailableError(f"pip cannot fetch {wanted[0]}: {done.stderr.strip()[-200:]}")

    return kept(cache_dir() / wanted[0].replace("==", "-"), fill)


def key_log_agent() -> Path:
    """The jar of a Java agent that writes TLS secrets to a key log: `-javaagent:JAR=FILE`. Raises
    BrokerUnavailableError."""
    return _jar(_KEY_LOG_AGENT, "a key log agent")


def clients_jar(version: str) -> Path:
    """The jar of Kafka's Java clients of a release, without what it needs. Raises BrokerUnavailableError."""
    return _jar(f"org.apache.kafka:kafka-clients:{version}", f"kafka-clients {version}")


def resolved_jars(*artifacts: str) -> Path:
    """The folder with libraries (`group:artifact:version`) and all that they need, and what writes their log.

    As `broker_jars`. Raises BrokerUnavailableError.
    """
    parts = [dict(zip(("groupId", "artifactId", "version"), one.split(":"), strict=True)) for one in artifacts]
    listed = "".join(
        "<dependency>" + "".join(f"<{name}>{value}</{name}>" for name, value in one.items()) + "</dependency>"
        for one in (*parts, _LOGGING)
    )
    pom = _POM.format(dependencies=listed)
    digest = hashlib.sha256(pom.encode()).hexdigest()[:8]
    first = parts[0]
    return _filled(
        cache_dir() / "jars" / f"{first['artifactId']}-{first['version']}-{digest}",
        " ".join(artifacts),
        [["dependency:copy-dependencies"]],
        pom,
    )


def tiered_storage_jar(version: str, *, cache: Path | None = None) -> Path:
    """The jar with `LocalTieredStorage`, a tier in a folder, which is among Kafka's own tests. Raises
    BrokerUnavailableError."""
    return _jar(f"org.apache.kafka:kafka-storage:{version}:jar:test", "LocalTieredStorage", cache=cache)


def _jar(artifact: str, what: str, *, cache: Path | None = None) -> Path:
    """One jar, alone. `artifact`: group:name:version, or group:name:version:jar:classifier."""
    _, name, version, *_ = artifact.split(":")
    classifier = "".join(f"-{one}" for one in artifact.split(":")[4:])
    folder = (cache or cache_dir()) / "jars" / f"{name}{classifier}-{version}"
    return _filled(folder, what, [_copied(artifact)]) / f"{name}-{version}{classifier}.jar"


def _fetch(kind: str, version: str, cache: Path) -> Path:
    pom = (_HERE / f"{kind}-pom.xml").read_bytes()
    return _filled(
        cache / "jars" / f"kafka-{kind}-{version}-{hashlib.sha256(pom).hexdigest()[:8]}",
        f"Kafka {version}",
        [[f"-Dkafka.version={version}", "dependency:copy-dependencies"]],
        pom.decode(),
    )


def _copied(artifact: str) -> list[str]:
    return ["dependency:copy", f"-Dartifact={artifact}"]


def _filled(folder: Path, what: str, goals: list[list[str]], pom: str | None = None) -> Path:
    """The folder; if it is not there, Maven fills it by those goals."""

    def fill(jars: Path) -> None:
        for goal in goals:
            try:
                maven.run([*goal, f"-DoutputDirectory={jars}"], what, pom)
            except maven.MavenError as error:
                raise BrokerUnavailableError(str(error)) from None
        if not any(jars.glob("*.jar")):
            raise BrokerUnavailableError(f"Maven cannot fetch {what}: it fetched nothing")

    return kept(folder, fill)
