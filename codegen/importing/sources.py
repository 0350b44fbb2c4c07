"""Jars, folders and files -> the schemas in them, each with its release and its family.

A jar's name has its release and its family (`kafka-clients-4.2.0.jar`), or a version file inside has the release.
Hostile content of a jar costs bounded time and memory, and ends in a SchemaError at worst.
"""

from __future__ import annotations

import os
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from kafkawire.codegen.importing.facts import Schema, facts
from kafkawire.codegen.load import MAX_SCHEMA, RawSchema, decoded, load_text, read_text
from kafkawire.codegen.quoting import quote
from kafkawire.codegen.resolve import resolve
from kafkawire.errors import Problem, SchemaError

FAMILIES = {
    "kafka-clients": "rpc",
    "kafka-group-coordinator": "group",
    "kafka-metadata": "metadata",
    "kafka-raft": "raft",
    "kafka-share-coordinator": "share",
    "kafka-storage": "storage",
    "kafka-transaction-coordinator": "transaction",
}
"""The artifacts of org.apache.kafka that hold schemas -> the family of their messages."""

#: Bytes of all schemas of a jar, and how many files there may be.
MAX_JAR = 128 << 20
MAX_FILES = 10_000

# The folder differs from jar to jar, and 4.x's storage jar has no `common/` above it.
_INSIDE_JAR = re.compile(r"(common/)?(message|metadata)/[^/]+\.json")
_INNER_FOLDERS = re.compile(r"(^|/)(common/)?(message|metadata)$")
_JAR_NAME = re.compile(r"(?P<artifact>.+?)-(?P<release>\d+(\.\d+)+([-.][\w.-]+)?)\.jar")
_CHECKOUT = re.compile(r".*/([a-z-]+)/src/main/resources/")
_VERSION_FILE = "kafka/kafka-version.properties"
_VERSION = re.compile(r"^version=(\d[\w.-]*)\s*$", re.MULTILINE)
_FAMILY = re.compile(r"[A-Za-z0-9][\w-]{0,60}", re.ASCII)
_BY_KIND = {"request": "rpc", "response": "rpc", "header": "rpc", "metadata": "metadata"}
#: What zipfile raises on a damaged or encrypted jar, or one packed in a way that it does not know (a RuntimeError).
_UNREADABLE = (OSError, EOFError, RuntimeError, ValueError, zipfile.BadZipFile, zlib.error)


class SchemaSource(NamedTuple):
    """One schema: `file` names it in errors, `release` is None where it is unknown."""

    file: str
    release: str | None
    family: str
    schema: Schema


class Release(NamedTuple):
    """The messages of one release: name -> (family, schema)."""

    label: str
    messages: dict[str, tuple[str, Schema]]


def read(path: Path, *, family: str | None = None, prose: bool = True) -> list[SchemaSource]:
    """The schemas of a jar, of a schema file, or of all of them below a folder.

    Args:
        path: of the jar, file or folder.
        family: of all schemas. None: that of the jar; or of the folder that a schema lies in (the module's in a
            checkout of Kafka, the subfolder's below `path`); or what its type implies.
        prose: keep the schemas' own `about` sentences.

    Raises:
        SchemaError: with the problems of all files.
    """
    if not path.exists():
        raise SchemaError([Problem(str(path), "", "the file or folder does not exist")])
    sources: list[SchemaSource] = []
    problems: list[Problem] = []
    for file in _files(path):
        try:
            if file.suffix == ".json":
                schema = _schema(read_text(file, str(file)), str(file), prose)
                sources.append(SchemaSource(str(file), None, family or _folder_family(path, file, schema), schema))
            else:
                found = _read_jar(file, family, prose)
                if not found and file == path:
                    raise SchemaError([Problem(str(file), "", "no schema inside")])
                sources += found
        except SchemaError as error:
            problems += error.problems
    if not sources and not problems:
        problems.append(Problem(str(path), "", "there is no schema (*.json, or a jar with some) in it"))
    if problems:
        raise SchemaError(problems)
    return sources


def is_family(name: str) -> bool:
    """Whether a family, which is a folder too, may be called so."""
    return bool(_FAMILY.fullmatch(name))


def releases(groups: Sequence[Sequence[SchemaSource]]) -> list[Release]:
    """The releases in what was read (one group an argument), newest first.

    Where every schema has its release, the numbers decide. Where one does not, the order given does: then each argument
    without a number is a release of its own. Raises SchemaError when a release has two schemas of one name.
    """
    out: dict[str, Release] = {}
    files: dict[tuple[str, str], SchemaSource] = {}
    numbered = True
    problems = []
    for number, group in enumerate(groups):
        for source in group:
            numbered = numbered and source.release is not None
            label = source.release or f"argument {number + 1}"
            release = out.setdefault(label, Release(label, {}))
            name = source.schema["name"]
            other = files.setdefault((label, name), source)
            if other.schema != source.schema:
                problems.append(Problem(source.file, "", f"{name} of {label} is in {other.file} too, and differs"))
            release.messages.setdefault(name, (source.family, source.schema))
    if problems:
        raise SchemaError(problems)
    return [out[label] for label in newest_first(out)] if numbered else list(out.values())


def newest_first(labels: Iterable[str]) -> list[str]:
    """Releases by their numbers."""
    return sorted(labels, key=_order, reverse=True)


def _order(release: str) -> tuple[list[str], bool, str]:
    """The sort key of releases: 4.10.0 after 4.9.1, 4.4.0 after 4.4.0-rc1."""
    numbers, _, rest = release.partition("-")
    return [part.zfill(20) for part in numbers.split(".") if part.isdigit()][:8], not rest, rest


# Files ---------------------------------------------------------------------------------------------------------------


def _files(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
        return
    count = 0
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            file = Path(folder, name)
            if name.startswith(".") or file.suffix not in (".json", ".jar") or not file.is_file():
                continue
            count += 1
            if count > MAX_FILES:
                raise SchemaError([Problem(str(path), "", f"there are more than {MAX_FILES} files in this folder")])
            yield file


def _schema(text: str, file: str, prose: bool) -> Schema:
    """The schema in `text`, which the compiler has found no mistake in."""
    raw = load_text(text, file=file, lenient=True)
    schema = facts(raw.data, prose=prose)
    if "validVersions" in schema and schema["validVersions"] != "none":
        schema.setdefault("flexibleVersions", "none")  # the key exists since KIP-482 (2.4)
    resolve([RawSchema(file, "", schema, raw.text)], drafts=True)
    if len(schema["name"]) > 200:
        raise SchemaError([Problem(file, "name", f"{quote(schema['name'])} is too long for the name of a file")])
    return schema


def _folder_family(root: Path, file: Path, schema: Schema) -> str:
    module = _CHECKOUT.match(file.absolute().as_posix())
    if module and (known := FAMILIES.get(f"kafka-{module[1]}")):
        return _of_kind(known, schema)
    inner = file.parent.relative_to(root).as_posix() if root.is_dir() else "."
    folder = _INNER_FOLDERS.sub("", inner).rpartition("/")[2]
    if folder in ("", "."):
        return _BY_KIND.get(schema["type"], "common")
    if not is_family(folder):
        raise SchemaError([Problem(str(file), "", f"{quote(folder)} will not do as a family: give one")])
    return folder


# Jars ----------------------------------------------------------------------------------------------------------------


def _read_jar(jar: Path, family: str | None, prose: bool) -> list[SchemaSource]:
    named = _JAR_NAME.fullmatch(jar.name)
    out: list[SchemaSource] = []
    problems: list[Problem] = []
    try:
        with zipfile.ZipFile(jar) as archive:
            release = named["release"] if named else _release_inside(archive)
            artifact = FAMILIES.get(named["artifact"] if named else "")
            for name, text in _members(archive, str(jar)):
                try:
                    schema = _schema(text, name, prose)
                except SchemaError as error:
                    problems += error.problems
                    continue
                own = _of_kind(artifact, schema) if artifact else _BY_KIND.get(schema["type"], "common")
                out.append(SchemaSource(name, release, family or own, schema))
    except SchemaError:
        raise
    except _UNREADABLE as error:
        reason = str(error) or type(error).__name__
        raise SchemaError([Problem(str(jar), "", f"is no jar that can be read: {quote(reason)}")]) from None
    if problems:
        raise SchemaError(problems)
    return out


def _members(archive: zipfile.ZipFile, jar: str) -> Iterable[tuple[str, str]]:
    """Name and text of the schemas in a jar. What the directory claims of their sizes is not believed."""
    members = sorted(
        (info for info in archive.infolist() if _INSIDE_JAR.fullmatch(info.filename)), key=lambda info: info.filename
    )
    if len(members) > MAX_FILES:
        raise SchemaError([Problem(jar, "", f"there are more than {MAX_FILES} schemas in it")])
    total = 0
    for info in members:
        name = f"{jar}, {info.filename if len(info.filename) <= 200 else quote(info.filename)}"
        content = _content(archive, info)
        total += len(content)
        if total > MAX_JAR:
            raise SchemaError([Problem(jar, "", f"its schemas are longer than {MAX_JAR >> 20} MiB")])
        yield name, decoded(content, name)


def _content(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    with archive.open(info) as stream:
        return stream.read(MAX_SCHEMA + 1)


def _release_inside(archive: zipfile.ZipFile) -> str | None:
    if _VERSION_FILE not in archive.namelist():
        return None
    found = _VERSION.search(_content(archive, archive.getinfo(_VERSION_FILE)).decode("latin-1"))
    return found[1] if found else None


def _of_kind(family: str, schema: Schema) -> str:
    # The client's jar contains the requests and responses, and also records and subscriptions that all clients share.
    return "common" if family == "rpc" and schema["type"] == "data" else family
