"""LICENSE-THIRD-PARTY.txt: the licences of what an engine links, with their texts, for every platform.

    python -m tools.wheels.licences            writes it (needs Cargo, which fetches the crates)
    python -m tools.wheels.licences --check    exit code 1 where it is not current

Where a crate offers the Apache License, 2.0, among others, that is the one taken; its text is in LICENSE. Of every
other crate, and of the C libraries in crates, the texts are copied. A crate without one is an error.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from tools import ROOT
from tools.wheels import crates
from tools.wheels.crates import Crate

PAGE = ROOT / "LICENSE-THIRD-PARTY.txt"
HEAD = """\
Third-party software in the native engine of kafkawire (kafkawire/_native). Pure Python wheels do not hold it.
Written by `python -m tools.wheels.licences` from native/crates.lock.

Under the Apache License, Version 2.0, whose text is in LICENSE:

"""
#: Beside crates, every program in Rust links its standard library.
STANDARD_LIBRARY = "the Rust standard library (MIT OR Apache-2.0)"
#: Texts of a crate: its own, and of a C library's folder. Texts of parts that are not compiled are left out.
_TEXTS = ("LICEN[SC]E*", "COPYING*", "NOTICE*", "zstd/LICENSE", "liblz4/lib/LICENSE")


class MissingText(Exception):
    """A crate has no licence text."""


def page(linked: list[Crate]) -> str:
    under_apache = [crate for crate in linked if "Apache-2.0" in crate.licence.split(" OR ")]
    texts: dict[str, list[str]] = {}
    for crate in linked:
        if crate not in under_apache:
            for name, text in _texts(crate):
                own = f" ({crate.licence})" if "/" not in name else ""
                texts.setdefault(text, []).append(f"{crate.name} {crate.version}, {name}{own}")
    lines = [f"- {crate.name} {crate.version} ({crate.licence})" for crate in under_apache]
    parts = [HEAD + "\n".join([*lines, f"- {STANDARD_LIBRARY}"]) + "\n"]
    parts += ["\n".join(names) + f"\n\n{text}\n" for text, names in texts.items()]
    return f"\n{'-' * 80}\n\n".join(parts)


def _texts(crate: Crate) -> Iterator[tuple[str, str]]:
    """Pairs of a file's name and its text."""
    paths = sorted({path for pattern in _TEXTS for path in crate.folder.glob(pattern)})
    if not paths:
        raise MissingText(
            f"{crate.name} {crate.version} ({crate.licence}) has no licence text: tools/wheels/licences.py"
        )
    for path in paths:
        lines = path.read_text("utf-8").strip().splitlines()
        yield path.relative_to(crate.folder).as_posix(), "\n".join(line.rstrip() for line in lines)


def main(arguments: list[str]) -> int:
    crates.write_lock()
    text = page(crates.linked())
    if arguments != ["--check"]:
        PAGE.write_text(text, "utf-8")
    elif not PAGE.exists() or PAGE.read_text("utf-8") != text:
        print(f"{PAGE.name} is not current: python -m tools.wheels.licences", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
