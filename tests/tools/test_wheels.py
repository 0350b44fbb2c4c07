"""`make wheels`: which interpreters it builds for, and that nothing passes which does not hold. `tests/test_wheel.py`
builds, repairs and tries a wheel."""

from __future__ import annotations

import json
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import pytest

from tools.pages import kept_rows, write_rows
from tools.wheels import __main__ as command
from tools.wheels import building, crates, cross, interpreters, licences, sizes
from tools.wheels.interpreters import Interpreter

SUPPORTED = {(3, 11), (3, 12), (3, 13), (3, 14)}


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def fake_python(
    path: Path, implementation: str, version: tuple[int, int], free_threaded: bool = False, machine: str = "darwin"
) -> Path:
    """An executable that answers as an interpreter does."""
    suffix = f".cpython-3x-{machine}.so"
    return script(path, f"echo '{json.dumps([implementation, version, free_threaded, suffix])}'")


def wheel_with(path: Path, *names: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, "")
    return path


# Interpreters --------------------------------------------------------------------------------------------------------


def test_versions_equal_those_of_the_package() -> None:
    assert interpreters.supported() == SUPPORTED


def test_probes_this_interpreter() -> None:
    path = Path(sys.executable)
    found = interpreters.probe(path)
    assert found
    free_threaded = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
    assert found == Interpreter(sys.version_info[:2], free_threaded, found.machine, path)
    assert found.machine
    assert found.machine in sysconfig.get_config_var("EXT_SUFFIX")


@pytest.mark.parametrize(
    "text",
    [
        "echo 'pyenv: python3.12: command not found' >&2; exit 127",
        "echo '[\"cpython\", [3, 12], false]'; exit 1",
        "echo not JSON",
        "echo '[\"pypy\", [3, 12], false]'",
        "echo '[\"cpython\"]'",
    ],
)
def test_ignores_executables_that_are_no_cpython(text: str, tmp_path: Path) -> None:
    assert interpreters.probe(script(tmp_path / "python3.12", text)) is None
    assert interpreters.probe(tmp_path / "absent") is None


def test_tag_has_the_version_and_free_threading() -> None:
    assert Interpreter((3, 13), False, "", Path()).tag == "cp313"
    assert Interpreter((3, 14), True, "", Path()).tag == "cp314t"


def test_takes_the_first_of_every_supported_version(tmp_path: Path) -> None:
    first = fake_python(tmp_path / "a" / "python3.12", "cpython", (3, 12))
    second = fake_python(tmp_path / "b" / "python3.12", "cpython", (3, 12))
    threaded = fake_python(tmp_path / "b" / "python3.14t", "cpython", (3, 14), True)
    old = fake_python(tmp_path / "b" / "python3.10", "cpython", (3, 10))
    new = fake_python(tmp_path / "b" / "python3.99", "cpython", (3, 99))
    other = fake_python(tmp_path / "c" / "python3.12", "cpython", (3, 12), machine="aarch64-linux-gnu")
    found = interpreters.found([threaded, first, second, old, new, other])
    assert found == [
        Interpreter((3, 12), False, "aarch64-linux-gnu", other),
        Interpreter((3, 12), False, "darwin", first),
        Interpreter((3, 14), True, "darwin", threaded),
    ]


@pytest.mark.parametrize(
    ("suffix", "machine"),
    [
        (".cpython-313-x86_64-linux-gnu.so", "x86_64-linux-gnu"),
        (".cpython-314t-aarch64-linux-musl.so", "aarch64-linux-musl"),
        (".cpython-313-darwin.so", "darwin"),
        (".cp313-win_amd64.pyd", "win_amd64"),
    ],
)
def test_machine_is_that_of_the_names_of_extensions(suffix: str, machine: str, tmp_path: Path) -> None:
    path = script(tmp_path / "python3.13", f"echo '{json.dumps(['cpython', [3, 13], False, suffix])}'")
    assert interpreters.probe(path) == Interpreter((3, 13), False, machine, path)


def test_finds_interpreters_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, listed = tmp_path / "home", tmp_path / "listed"
    for name in ("python3.13", "python3.14t", "python3", "python3.12-config", "pip3.12"):
        fake_python(listed / name, "cpython", (3, 13))
    managed = [
        fake_python(home / ".pyenv" / "versions" / v / "bin" / "python3.12", "cpython", (3, 12)) for v in ("1", "2")
    ]
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", f"{listed}:{tmp_path / 'absent'}:")
    found = [path for path in interpreters.candidates(interpreters.places()) if path.is_relative_to(tmp_path)]
    assert found == [listed / "python3.13", listed / "python3.14t", *reversed(managed)]


# Building ------------------------------------------------------------------------------------------------------------


def test_failing_command_reports_its_output() -> None:
    program = "import sys; print('out', flush=True); print('err', file=sys.stderr); sys.exit(3)"
    with pytest.raises(building.BuildError, match=r"exit code 3\nout\nerr$") as caught:
        building.run([sys.executable, "-c", program])
    assert not isinstance(caught.value, building.Unreachable)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "ERROR: No matching distribution found for setuptools>=77",
        "Read timed out",
        "warning: spurious network error (3 tries remaining): [6] Could not resolve hostname",
        "error: failed to download from the registry",
    ],
)
def test_unreachable_index_is_a_separate_error(text: str) -> None:
    program = f"import sys; sys.exit({text!r})"
    with pytest.raises(building.Unreachable):
        building.run([sys.executable, "-c", program])


def test_finds_the_engine_in_a_wheel(tmp_path: Path) -> None:
    pure = wheel_with(tmp_path / "a.whl", "kafkawire/__init__.py", "kafkawire/_native.pyi", "other/_native.x.so")
    assert building.engine(pure) is None
    name = "kafkawire/_native.cpython-313-x86_64-linux-gnu.so"
    assert building.engine(wheel_with(tmp_path / "b.whl", name)) == name


def test_wheel_is_kept_only_when_every_step_succeeds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "dist"
    output.mkdir()

    def step() -> tuple[Path, str]:
        raise building.BuildError("smoke: python runs, not native")

    assert command.made(step, output, "1234") is None
    assert "FAILED: smoke: python runs, not native" in capsys.readouterr().out
    assert list(output.iterdir()) == []
    wheel = wheel_with(tmp_path / "kafkawire-1-cp313-cp313-any.whl")
    row = command.made(lambda: (wheel, "CPython 3.13.0"), output, "1234")
    assert row == "| `cp313-cp313-any` | 0.0 | CPython 3.13.0 | 1234 |"
    assert [path.name for path in output.iterdir()] == [wheel.name]


def test_table_keeps_the_rows_of_wheels_that_were_not_made(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("Text.\n")
    for row in ("| `b` | 1.0 | old | 1 |", "| `a` | 1.0 | kept | 1 |", "| `b` | 2.0 | new | 2 |"):
        write_rows(page, "wheels", command.HEAD, [row])
    table = "\n".join([*command.HEAD, "| `a` | 1.0 | kept | 1 |", "| `b` | 2.0 | new | 2 |"])
    assert page.read_text() == f"Text.\n\n<!-- wheels -->\n{table}\n<!-- /wheels -->\n"


def test_sizes_of_wheels_that_were_not_measured_stay() -> None:
    section = "\n".join([*sizes.HEAD, "| `kafkawire`, 0.1.0 | 1 |", "| `kafkawire` | 2 |", "", "Measured at 1."])
    rows = ["| `kafkawire` | 3 |", "| `kafkawire[cli]` | 4 |"]
    assert kept_rows(section, sizes.HEAD, rows, ordered=False)[2:] == [
        "| `kafkawire`, 0.1.0 | 1 |", "| `kafkawire` | 3 |", "| `kafkawire[cli]` | 4 |",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("machine", "printed"), [("aarch64-linux-gnu", "CPython 3.14.1, aarch64"), ("x86_64-linux-gnu", command.NOT_RUN)]
)
def test_wheel_for_another_machine_runs_on_its_interpreter_only(
    machine: str, printed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cross, "wheel", lambda *_: tmp_path / "a.whl")
    monkeypatch.setattr(command, "ran_on_platform", lambda *_: "CPython 3.14.1, aarch64")
    there = [Interpreter((3, 14), False, machine, Path()), Interpreter((3, 13), False, "aarch64-linux-gnu", Path())]
    assert command.cross_built(tmp_path, "manylinux_2_17_aarch64", "3.14", there, False)[1] == printed


def test_wheels_of_dependencies_may_ask_for_newer_c_libraries() -> None:
    tags = cross.compatible("manylinux_2_17_x86_64")
    assert {"manylinux_2_17_x86_64", "manylinux_2_28_x86_64"} < set(tags)
    assert cross.compatible("musllinux_1_2_aarch64") == ["musllinux_1_2_aarch64", "musllinux_1_1_aarch64"]


# Crates --------------------------------------------------------------------------------------------------------------


def test_pinned_crates_name_no_registry() -> None:
    assert "://" not in crates.PINS.read_text("utf-8")


def test_pins_are_those_of_the_manifest() -> None:
    """Otherwise builds end with Cargo's "--locked was passed": `python -m tools.wheels.crates --update`."""
    manifest = tomllib.loads(crates.MANIFEST.read_text("utf-8"))
    pinned = {(package["name"], package["version"]) for package in tomllib.loads(crates.PINS.read_text())["package"]}
    for name, wanted in (manifest["dependencies"] | manifest["build-dependencies"]).items():
        version = wanted if isinstance(wanted, str) else wanted["version"]
        assert (name, version.removeprefix("=")) in pinned


def test_lock_file_and_pins_are_the_same_but_for_the_registry() -> None:
    lock = (
        '[[package]]\nname = "a"\nversion = "1"\nsource = "registry+x"\nchecksum = "00"\n'
        '\n[[package]]\nname = "own"\nversion = "0"\ndependencies = [\n "a",\n]\n'
    )
    pins = crates.without_registry(lock)
    assert "registry" not in pins
    assert crates.with_registry(pins, "registry+x") == lock


def crate(folder: Path, licence: str, **texts: str) -> crates.Crate:
    folder.mkdir()
    for name, text in texts.items():
        (folder / name).write_text(text)
    return crates.Crate("c", "1", licence, "00", folder, ())


@pytest.mark.slow
def test_licence_texts_are_those_that_are_needed(tmp_path: Path) -> None:
    mit = crate(tmp_path / "mit", "MIT", LICENSE="Copyright A\n")
    either = crate(tmp_path / "either", "MIT OR Apache-2.0", LICENSE="not copied")
    page = licences.page([mit, either])
    assert "Copyright A" in page
    assert "not copied" not in page
    assert "- c 1 (MIT OR Apache-2.0)" in page
    with pytest.raises(licences.MissingText, match=r"c 1 \(MIT\) has no licence text"):
        licences.page([crate(tmp_path / "none", "MIT")])


def test_missing_interpreters_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["tools.wheels", "--output", str(tmp_path), "--python", str(tmp_path / "absent")])
    with pytest.raises(SystemExit) as caught:
        command.main()
    assert "no CPython" in str(caught.value)
