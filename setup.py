"""The folders `codegen` and `schemas` stand at the top of the tree and are installed as `kafkawire.codegen` and
`kafkawire/schemas`; the rest of the build is in pyproject.toml.

In a checkout `kafkawire/codegen` and `kafkawire/schemas` are symbolic links to them, for imports and for tools that
look at paths. Where git's `core.symlinks` is false, the default on Windows, they are plain files. Sdists and wheels are
made without them; an editable install imports through them, and is refused there.
"""

import re
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.editable_wheel import editable_wheel
from setuptools.errors import SetupError

PLACES = {"kafkawire.codegen": "codegen", "kafkawire.schemas": "schemas"}


def readme() -> str:
    """README.md for a package index: links to files of the repository, which lead nowhere there, are their text."""
    text = re.sub(r"\[!\[.*?\]\(.*?\)\]\(.*?\)\n+", "", Path("README.md").read_text("utf-8"))
    return re.sub(r"\[([^]]*)\]\((?!https?:)[^)]*\)", r"\1", text)


class EditableWheel(editable_wheel):
    """An editable install, which imports through the links."""

    def finalize_options(self) -> None:
        for name in PLACES:
            link = name.replace(".", "/")
            if not Path(link).is_dir():
                raise SetupError(
                    f"{link} is no link to a folder, which an editable install needs: check out with "
                    "`git config core.symlinks true` (on Windows in developer mode), or install without -e"
                )
        self.distribution.package_dir = {}
        super().finalize_options()


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
    cmdclass={"editable_wheel": EditableWheel},
)
