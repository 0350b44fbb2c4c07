"""A wheel for another machine: the pure wheel with an engine that zig links for that machine.

Neither an interpreter of that machine nor its C library is needed: PyO3 gets the version of Python from the
environment, zig has the libraries. `cargo-zigbuild` and `ziglang` are in the dependency group `cross`. Rust's standard
library for the target is rustup's (`rustup target add`), or compiled on the way from rust-src (`build_std`).
"""

from __future__ import annotations

import base64
import hashlib
import os
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

from tools.wheels import building, crates, sbom
from tools.wheels.building import TARGET, BuildError


@dataclass(frozen=True)
class Platform:
    """Where a wheel is to run.

    Attributes:
        triple: Rust's name. `glibc`: the oldest C library, for zig. `machine`: as in the name of the engine's file.
    """

    triple: str
    glibc: str
    machine: str


#: By the tag of the wheel.
PLATFORMS = {
    "manylinux_2_17_x86_64": Platform("x86_64-unknown-linux-gnu", ".2.17", "x86_64-linux-gnu"),
    "manylinux_2_17_aarch64": Platform("aarch64-unknown-linux-gnu", ".2.17", "aarch64-linux-gnu"),
    "musllinux_1_2_x86_64": Platform("x86_64-unknown-linux-musl", "", "x86_64-linux-musl"),
    "musllinux_1_2_aarch64": Platform("aarch64-unknown-linux-musl", "", "aarch64-linux-musl"),
}


def compatible(name: str) -> list[str]:
    """The tags of wheels that run beside those of a platform, newest first, with any C library that is common now."""
    system, major, _, machine = name.split("_", 3)
    minors = range(39, 4, -1) if system == "manylinux" else range(2, 0, -1)
    return [f"{system}_{major}_{minor}_{machine}" for minor in minors]


def wheel(folder: Path, source: Path, name: str, version: str, build_std: bool = False) -> Path:
    """The wheel, which auditwheel found fit for its platform.

    Args:
        folder: where the pure wheel is, alone among pure ones. `source`: a checkout. `name`: of `PLATFORMS`.
        version: of Python, such as 3.13 or 3.14t. `build_std`: compile Rust's standard library, too.
    """
    platform = PLATFORMS[name]
    engine = compiled(source, platform, version, build_std)
    (pure,) = folder.glob("*-none-any.whl")
    file = f"kafkawire/_native.cpython-{version.replace('.', '')}-{platform.machine}.so"
    path = folder.parent / "assembled" / file_name(pure, version, name)
    assemble(pure, path, {file: engine.read_bytes()}, crates.linked(platform.triple))
    return building.repaired(path, folder.parent / "repaired", name)


def file_name(pure: Path, version: str, platform: str) -> str:
    """The wheel's name: of a pure one's project and version, and the tags of a Python and a platform."""
    tag = f"cp{version.replace('.', '')}"
    return f"{pure.name.removesuffix('-py3-none-any.whl')}-{tag.removesuffix('t')}-{tag}-{platform}.whl"


def compiled(source: Path, platform: Platform, version: str, build_std: bool) -> Path:
    """The engine's library."""
    crates.write_lock()
    crates.linked(platform.triple)  # fetches them, so that their folder is known
    (source / "native" / "Cargo.lock").write_bytes(crates.LOCK.read_bytes())
    home = Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo")
    flags = [f"--remap-path-prefix={folder}=/crates" for folder in (source, *home.glob("registry/src/*"))]
    if platform.triple.endswith("musl"):
        flags.append("-Ctarget-feature=-crt-static")  # a library shares the C library of its process
    settings = {
        "CARGO_TARGET_DIR": str(TARGET / "cross"),
        "PYO3_CROSS": "1",
        "PYO3_BUILD_EXTENSION_MODULE": "1",  # no libpython: zig has none, and a process brings its own
        "PYO3_CROSS_PYTHON_VERSION": version,
        "RUSTFLAGS": " ".join(flags),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        **({"RUSTC_BOOTSTRAP": "1"} if build_std else {}),
    }
    command: list[str | Path] = ["cargo-zigbuild", "zigbuild", "--lib", "--release", "--locked"]
    command += ["--manifest-path", source / "native" / "Cargo.toml", "--target", platform.triple + platform.glibc]
    building.run(command + (["-Zbuild-std=std,panic_unwind"] if build_std else []), settings)
    engine = TARGET / "cross" / platform.triple / "release" / "lib_native.so"
    if not engine.exists():
        raise BuildError(f"cargo-zigbuild made no {engine}")
    if platform.triple.endswith("musl"):  # zig's C library has the name of the source, Alpine's has its machine's
        named = f"libc.musl-{platform.machine.partition('-')[0]}.so.1"
        building.run(["patchelf", "--replace-needed", "libc.so", named, engine], settings)
    return engine


def assemble(pure: Path, path: Path, files: dict[str, bytes], linked: list[crates.Crate]) -> Path:
    """Writes a wheel of the name `path`: the files of a pure wheel and `files`, with its tag, its bill of materials and
    its record of hashes. Times are those of the pure wheel."""
    with zipfile.ZipFile(pure) as archive:
        content = {info: archive.read(info) for info in archive.infolist()}
    (record,) = (info for info in content if info.filename.endswith(".dist-info/RECORD"))
    distribution = record.filename.removesuffix("RECORD")
    own_version = path.name.split("-")[1]
    del content[record]
    for name, data in files.items():
        content[_entry(name, record, 0o755)] = data
    for info in content:
        if info.filename == f"{distribution}WHEEL":
            text = content[info].decode().replace("Root-Is-Purelib: true", "Root-Is-Purelib: false")
            content[info] = text.replace("py3-none-any", "-".join(path.stem.split("-")[2:])).encode()
        elif info.filename == distribution + sbom.PLACE:
            content[info] = sbom.bill(own_version, linked).encode()
    lines = [f"{info.filename},sha256={_hash(data)},{len(data)}" for info, data in content.items()]
    content[_entry(record.filename, record, 0o644)] = "\n".join([*lines, f"{record.filename},,", ""]).encode()
    path.parent.mkdir(exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for info, data in content.items():
            archive.writestr(info, data)
    return path


def _entry(name: str, like: zipfile.ZipInfo, mode: int) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, like.date_time)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = (0o100000 | mode) << 16
    return entry


def _hash(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
