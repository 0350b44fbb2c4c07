"""`python -m kafkawire.codegen [--check]`: generates the package's messages, drafts and tables from `schemas/`.

With `--check` nothing is written; the exit code is 1 when the files differ from what the schemas give.
"""

from __future__ import annotations

import sys
from pathlib import Path

from kafkawire.codegen import generate, names, tables
from kafkawire.errors import SchemaError

_KAFKA = "Every Kafka message of releases 3.9.1 and 4.4.0, each with all its versions; imported on first use."
_EMBEDDED = (
    "Layouts inside of bytes in Kafka's messages and records: of assignors, Connect, Streams and MirrorMaker; "
    "imported on first use."
)
_DRAFT = "Layouts that the text of {title} proposed and Kafka never shipped: to be encoded and decoded, never sent."

#: Folder of schemas -> (package below `kafkawire`, its docstring).
NAMESPACES = {
    "kafka": ("messages", _KAFKA),
    "embedded": ("embedded", _EMBEDDED),
    "kip-664-draft": ("drafts", _DRAFT.format(title="KIP-664 as first drafted")),
    "kip-664-adopted": ("drafts", _DRAFT.format(title="KIP-664 as adopted")),
    "kip-360": ("drafts", _DRAFT.format(title="KIP-360")),
}


def main(check: bool) -> int:
    package = Path(__file__).absolute().parent.parent / "kafkawire"
    package = package if package.is_dir() else package.parent
    packages = [(tables.table_files(package / "schemas"), package)]
    for folder, (subpackage, docstring) in NAMESPACES.items():
        output = package / subpackage
        if subpackage == "drafts":
            output /= names.package_name(folder)
        messages = generate.load(package / "schemas" / folder, drafts=subpackage != "messages")
        packages.append((generate.package_files(messages, docstring), output))
    changed = []
    for files, output in packages:
        changed += list(generate.differences(files, output)) if check else generate.write(files, output)
    for change in changed:
        print(f"{change.path.relative_to(package.parent)}: {change.what if check else generate.DONE[change.what]}")
    return 1 if check and changed else 0


if __name__ == "__main__":
    try:
        sys.exit(main("--check" in sys.argv[1:]))
    except SchemaError as error:
        sys.exit(str(error))
