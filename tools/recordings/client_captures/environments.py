"""Client libraries of several generations, each fetched into a folder of its own by its ordinary package manager."""

from __future__ import annotations

import hashlib
import shutil
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec

from tools.broker import jars
from tools.kept_folder import kept

from .. import run
from ..archive import ROOT
from ..frameworks import spring_command

_HERE = Path(__file__).parent
#: An old librdkafka, in C, without what is not needed. Newer compilers warn of it.
_FLAGS = "-O1 -fPIC -w -fcommon"

P = ParamSpec("P")

#: Given the address of a broker, a topic and a number of records: the commands that use the library, one by one.
Commands = Callable[[str, str, int], list[list[str]]]


def _folder(name: str, fill: Callable[[Path], None]) -> Path:
    return kept(jars.cache_dir() / "clients" / name, fill)


def _program(command: Callable[P, list[str]]) -> Callable[P, Commands]:
    """A library that is used by one program, which is given the address, the topic and the number at its end.

    Args:
        command: fetches what is not there yet, and gives the program.
    """

    def of(*args: P.args, **kwargs: P.kwargs) -> Commands:
        return lambda bootstrap, topic, count: [[*command(*args, **kwargs), bootstrap, topic, str(count)]]

    return of


@_program
def python(script: str, *packages: str) -> list[str]:
    """A script of this folder, with packages of PyPI; without packages those of this environment."""

    def fill(folder: Path) -> None:
        run([sys.executable, "-m", "pip", "install", "-q", "--target", str(folder), *packages])

    path = [f"PYTHONPATH={_folder('-'.join(packages).replace('==', '-'), fill)}"] if packages else []
    return ["env", "-u", "PYTHONPATH", *path, sys.executable, str(_HERE / script)]


@_program
def node(script: str, package: str, *, compiled: bool = False) -> list[str]:
    """A script of this folder, with a package of npm, as `name@version`.

    `compiled`: the package's own scripts compile it, with the headers beside the program `node`.
    """

    def fill(folder: Path) -> None:
        how = [] if compiled else ["--ignore-scripts"]
        headers = f"npm_config_nodedir={Path(shutil.which('node') or 'node').resolve().parents[1]}"
        run(["env", headers, "npm", "install", *how, "--silent", "--prefix", str(folder), package])

    return ["node", str(_HERE / script), str(_folder(package.replace("@", "-"), fill) / "node_modules")]


def java(version: str, *arguments: str) -> Commands:
    """JavaClient.java, with kafka-clients of a release."""

    def commands(bootstrap: str, topic: str, count: int) -> list[list[str]]:
        needed = [
            path for path in jars.broker_jars("3.9.1").glob("*.jar") if path.name.startswith(("lz4", "slf4j-api"))
        ]
        class_path = ":".join(map(str, (jars.clients_jar(version), *needed)))
        client = str(_HERE / "JavaClient.java")
        return [[jars.java(), "-cp", class_path, client, bootstrap, topic, str(count), *arguments]]

    return commands


@_program
def go(name: str) -> list[str]:
    """A program of `go_clients`, compiled with the modules of its go.mod."""

    def fill(folder: Path) -> None:
        run(["go", "build", "-o", str(folder / name), f"./{name}"], folder=_HERE / "go_clients")

    return [str(_folder(_named(name, "go_clients"), fill) / name)]


@_program
def rust() -> list[str]:
    """The program of `rust_client`, compiled with the crates of its Cargo.lock: librdkafka is among them, in C."""

    def fill(folder: Path) -> None:
        manifest = str(_HERE / "rust_client" / "Cargo.toml")
        run(["cargo", "build", "-q", "--locked", "--manifest-path", manifest, "--target-dir", str(folder)])

    return [str(_folder(_named("rust", "rust_client"), fill) / "debug" / "rust_client")]


@_program
def framework(name: str) -> list[str]:
    """A framework on Kafka's Java clients (`tools.recordings.frameworks`)."""
    return ["env", f"PYTHONPATH={ROOT}", sys.executable, "-m", "tools.recordings.frameworks", name]


@_program
def spring() -> list[str]:
    """An application with Spring (`Spring.java`), with its defaults."""
    return spring_command()


def _named(name: str, folder: str) -> str:
    """A folder's name for what is compiled from the sources in a folder here."""
    digest = hashlib.sha256()
    for path in sorted((_HERE / folder).rglob("*.*")):
        if path.is_file():
            digest.update(path.read_bytes())
    return f"{name}-{digest.hexdigest()[:8]}"


def librdkafka(package: str) -> Commands:
    """The librdkafka that a package of npm (node-rdkafka) holds the source of, by its own rdkafka_performance."""

    def commands(bootstrap: str, topic: str, count: int) -> list[list[str]]:
        def fill(folder: Path) -> None:
            run(["npm", "pack", "--silent", package], folder=folder)
            (packed,) = folder.glob("*.tgz")
            with tarfile.open(packed) as archive:
                archive.extractall(folder, filter="data")
            source = folder / "package" / "deps" / "librdkafka"
            run(["bash", "./configure", "--disable-ssl", "--disable-sasl", "--disable-lz4"], folder=source)
            run(["make", "-C", "src", f"CFLAGS={_FLAGS} -I.", "librdkafka.a"], folder=source)
            run(["make", "-C", "examples", f"CFLAGS={_FLAGS} -I../src", "rdkafka_performance"], folder=source)

        folder = _folder(package.replace("@", "-"), fill) / "package" / "deps" / "librdkafka" / "examples"
        common = [str(folder / "rdkafka_performance"), "-b", bootstrap, "-X", "client.id=orders", "-q"]
        return [
            [*common, "-P", "-t", topic, "-s", "60", "-c", str(count), "-z", "gzip", "-X", "queue.buffering.max.ms=5"],
            [*common, "-G", topic, "-t", topic, "-c", str(count), "-X", "topic.auto.offset.reset=earliest"],
        ]

    return commands
