"""What pyproject.toml cannot state: where packages are, which engine a build makes, the wheel's bill of materials.

The folders `codegen` and `schemas` are at the top of the tree and are installed as `kafkawire.codegen` and
`kafkawire/schemas`. In a checkout `kafkawire/codegen` and `kafkawire/schemas` are symbolic links to them, for imports
and for tools that look at paths. Where git's `core.symlinks` is false, the default on Windows, they are plain files.
Sdists and wheels are made without them; an editable install imports through them: it makes them in an unpacked sdist,
and is refused where they are plain files.

`KAFKAWIRE_BACKEND` chooses the engine of a build as it does at run time: `native` is an error where it cannot be built,
`python` makes a `py3-none-any` wheel. By default that is what a build makes where the native engine cannot be built.
With `SOURCE_DATE_EPOCH`, two builds of the same sources give the same bytes.
"""

import gzip
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.editable_wheel import editable_wheel
from setuptools.command.sdist import sdist
from setuptools.errors import SetupError
from setuptools_rust import Binding, RustExtension

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))

from tools.wheels import crates, sbom  # noqa: E402

PLACES = {"kafkawire.codegen": "codegen", "kafkawire.schemas": "schemas"}
WANTED = os.environ.get("KAFKAWIRE_BACKEND", "")
EPOCH = os.environ.get("SOURCE_DATE_EPOCH")


def readme() -> str:
    """README.md for a package index: links to files of the repository, which lead nowhere there, are their text."""
    text = re.sub(
        r"<!--.*?-->\n|\[!\[.*?\]\(.*?\)\]\(.*?\)\n+", "", Path("README.md").read_text("utf-8"), flags=re.DOTALL
    )
    text = re.sub(r"\[([^]]*)\]\((?!https?:)[^)]*\)", r"\1", text)
    return f"{text}\nFiles that this page names, such as docs/index.md and examples/, are in the source distribution.\n"


def engines() -> list[RustExtension]:
    """The native engine where it is wanted and Cargo is there."""
    if WANTED not in ("", "native", "python"):
        raise SetupError(f"KAFKAWIRE_BACKEND={WANTED} is neither native nor python")
    if WANTED == "python" or not (shutil.which("cargo") and shutil.which("rustc")):
        if WANTED == "native":
            raise SetupError("KAFKAWIRE_BACKEND=native needs a Rust compiler: cargo and rustc are not on the path")
        return []
    return [
        RustExtension(
            "kafkawire._native",
            "native/Cargo.toml",
            binding=Binding.PyO3,
            optional=WANTED != "native",
            debug=False,
            cargo_manifest_args=["--locked"],
        )
    ]


def prepare() -> None:
    """Before Cargo builds: the lock file, and a flag with which an engine names no folder of this machine."""
    if not ENGINES:
        return
    try:
        crates.write_lock()
        crates.linked(host())  # fetches them, so that their folder is known
    except subprocess.CalledProcessError as error:  # Cargo has printed why
        if WANTED == "native":
            raise SetupError(f"KAFKAWIRE_BACKEND=native: {' '.join(error.cmd)}: exit code {error.returncode}") from None
    home = Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo")
    flags = [f"--remap-path-prefix={folder}=/crates" for folder in home.glob("registry/src/*")]
    os.environ["CARGO_BUILD_RUSTFLAGS"] = " ".join([os.environ.get("CARGO_BUILD_RUSTFLAGS", ""), *flags]).strip()


def host() -> str:
    """The triple that Rust compiles for."""
    printed = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout
    return os.environ.get("CARGO_BUILD_TARGET") or re.search("^host: (.+)$", printed, re.MULTILINE)[1]


def built(package: Path) -> list[Path]:
    """The engine in a folder of modules."""
    return [path for path in package.glob("_native.*") if path.suffix in {".so", ".pyd"}]


def state(native: bool) -> None:
    """One line with the engine that the build made."""
    reason = "KAFKAWIRE_BACKEND=python" if WANTED == "python" else "cargo and rustc are not on the path"
    if ENGINES:
        reason = "the native engine could not be built, see above"
    print("kafkawire: built with the native engine" if native else f"kafkawire: built in pure Python ({reason})")


class Wheel(bdist_wheel):
    """A wheel, which is for every platform when it has no engine."""

    native = False

    def run(self) -> None:
        package = Path(self.get_finalized_command("build").build_lib, "kafkawire")
        for leftover in built(package):
            leftover.unlink()
        prepare()
        self.run_command("build")
        self.skip_build = True
        self.native = bool(built(package))
        if not self.native:
            self.root_is_pure = True
            self.distribution.has_ext_modules = lambda: False
        super().run()
        state(self.native)

    def write_wheelfile(self, wheelfile_base: str, *arguments: str) -> None:
        """The last step before the archive is made: PEP 770's folder is written here, too."""
        super().write_wheelfile(wheelfile_base, *arguments)
        linked = crates.linked(host()) if self.native else ()
        path = Path(wheelfile_base, sbom.PLACE)
        path.parent.mkdir(exist_ok=True)
        path.write_text(sbom.bill(self.distribution.get_version(), linked), encoding="utf-8")


class EditableWheel(editable_wheel):
    """An editable install, which imports through the links."""

    def finalize_options(self) -> None:
        for name, place in PLACES.items():
            link = Path(name.replace(".", "/"))
            if not link.exists():
                link.symlink_to(Path("..", place))
            if not link.is_dir():
                raise SetupError(
                    f"{link.as_posix()} is no link to a folder, which an editable install needs: check out with "
                    "`git config core.symlinks true` (on Windows in developer mode), or install without -e"
                )
        self.distribution.package_dir = {}
        super().finalize_options()

    def run(self) -> None:
        prepare()
        super().run()
        state(bool(built(Path("kafkawire"))))


class SourceArchive(sdist):
    """An sdist. With SOURCE_DATE_EPOCH, times, owners and modes are not those of the machine."""

    def make_archive(self, *arguments, **options) -> str:
        path = super().make_archive(*arguments, **options)
        if EPOCH and path.endswith(".tar.gz"):
            with tarfile.open(path) as archive:
                members = [(member, archive.extractfile(member)) for member in archive.getmembers()]
                with (
                    open(f"{path}.new", "wb") as file,
                    gzip.GzipFile("", "wb", fileobj=file, mtime=int(EPOCH)) as packed,
                    tarfile.open(fileobj=packed, mode="w") as made,
                ):
                    for member, content in sorted(members, key=lambda pair: pair[0].name):
                        member.mtime, member.pax_headers = int(EPOCH), {}
                        member.uid = member.gid = 0
                        member.uname = member.gname = ""
                        member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
                        made.addfile(member, content)
            os.replace(f"{path}.new", path)
        return path


ENGINES = engines()
setup(
    long_description=readme(),
    long_description_content_type="text/markdown",
    packages=[
        *find_packages(include=["kafkawire", "kafkawire.*"], exclude=["kafkawire.codegen", "kafkawire.codegen.*"]),
        "kafkawire.codegen",
        *(f"kafkawire.codegen.{name}" for name in find_packages("codegen")),
        "kafkawire.schemas",
    ],
    package_dir=PLACES,
    rust_extensions=ENGINES,
    cmdclass={"bdist_wheel": Wheel, "editable_wheel": EditableWheel, "sdist": SourceArchive},
)
