"""Kafka's Maven jars: which hold schemas, how to get them, what is in them."""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

from kafkawire.codegen.importing.sources import FAMILIES, Release, read, releases
from tools import maven


class Artifact(NamedTuple):
    """An artifact of org.apache.kafka and the family that its messages belong to."""

    name: str
    family: str


RELEASES: list[str] = json.loads((Path(__file__).parent / "releases.json").read_text(encoding="utf-8"))
"""Newest first: the newest decides wherever two disagree."""

ARTIFACTS = tuple(Artifact(name, family) for name, family in FAMILIES.items())


class JarError(Exception):
    """A jar that cannot be fetched or read; the message names it and the reason."""


def wanted(release: str) -> list[Artifact]:
    """The artifacts of `release` that hold schemas, from 3.9 on."""
    # 3.9 keeps the share group's records in the group coordinator's jar.
    return [artifact for artifact in ARTIFACTS if artifact.name != "kafka-share-coordinator" or release[:2] != "3."]


def find(folder: Path, artifact: str, release: str) -> Path:
    """The jar in `folder` or in its subfolder named for the release; it need not exist.

    Args:
        artifact: Maven's artifact id. `release`: "4.4.0".
    """
    name = f"{artifact}-{release}.jar"
    flat = folder / name
    return flat if flat.exists() else folder / release / name


def fetch(cache: Path, jars: Iterable[tuple[str, str]]) -> None:
    """Have Maven put the missing of `jars` (artifact, release) into `cache`; needs no network when none is missing.

    Raises JarError when Maven is missing or fails.
    """
    missing = [(artifact, release) for artifact, release in jars if not find(cache, artifact, release).exists()]
    if not missing:
        return
    print(f"fetching {len(missing)} jars with Maven into {cache}", file=sys.stderr)
    # One throw-away project for all jars: Maven takes seconds to start.
    items = "".join(
        f"<artifactItem><groupId>org.apache.kafka</groupId><artifactId>{escape(artifact)}</artifactId>"
        f"<version>{escape(release)}</version><outputDirectory>{escape(str((cache / release).absolute()))}"
        "</outputDirectory></artifactItem>"
        for artifact, release in missing
    )
    project = (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>kafkawire</groupId><artifactId>import-schemas</artifactId><version>1</version>"
        "<packaging>pom</packaging><build><plugins><plugin><artifactId>maven-dependency-plugin</artifactId>"
        f"<configuration><artifactItems>{items}</artifactItems></configuration>"
        "</plugin></plugins></build></project>"
    )
    try:
        maven.run(["dependency:copy"], ", ".join("-".join(jar) for jar in missing), project)
    except maven.MavenError as error:
        raise JarError(str(error)) from None


def load(folder: Path, wanted_jars: Iterable[tuple[str, str]]) -> list[Release]:
    """What is in the jars (artifact, release) that lie in `folder`, without Kafka's prose, newest release first.

    Raises SchemaError when a jar is missing or broken, or holds no schema.
    """
    return releases([read(find(folder, artifact, release), prose=False) for artifact, release in wanted_jars])
