"""A hook of MkDocs: the reference of all messages, made anew on each build, and the search of a site on a disk.

The guide links to it where it names messages and error codes; in the repository, which has no such pages, it does not.

A browser refuses to start the theme's search from a file: `search-from-disk.js` starts it from the text of its script.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FOLDER = "reference"
#: A name in the running text, and what is no running text: fenced blocks, headings, comments.
_NAME = re.compile(r"(?<![\[`])`([A-Z]\w{5,})`(?![\]`])")
_VERBATIM = re.compile(r"(^```.*?^```|^#.*?$|<!--.*?-->)", re.DOTALL | re.MULTILINE)
_WORKER = "assets/javascripts/workers/search.*.min.js"
_SHIM = """// The theme's search where the page is a file: its worker, started from its text.
window.Worker = class extends Worker {
  constructor(address, options) {
    const own = /\\/workers\\/search\\./.test(address)
    super(own ? URL.createObjectURL(new Blob([source], { type: "text/javascript" })) : address, options)
  }
}
"""


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File

    for name, text in pages().items():
        files.append(File.generated(config, f"{FOLDER}/{name}", content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """In the guide, names of messages and of error codes are links to their pages."""
    if page.file.src_uri.startswith(f"{FOLDER}/"):
        return markdown
    up = "../" * page.file.src_uri.count("/")

    def link(found: re.Match[str]) -> str:
        name = found[1]
        if name in _errors():
            return f"[`{name}`]({up}{FOLDER}/error-codes.md#{name})"
        return f"[`{name}`]({up}{FOLDER}/{name}.md)" if files.get_file_from_path(f"{FOLDER}/{name}.md") else found[0]

    parts = _VERBATIM.split(markdown)
    parts[::2] = [_NAME.sub(link, part) for part in parts[::2]]
    return "".join(parts)


@cache
def _errors() -> frozenset[str]:
    entries = json.loads((ROOT / "schemas" / "errors.json").read_bytes())
    return frozenset(entry["name"] for entry in entries if entry["code"])


def pages() -> dict[str, str]:
    """The pages of the reference, name -> text."""
    from kafkawire.cli.schema_emit import default_examples
    from kafkawire.codegen import generate, reference
    from tools.guide.recorded_examples import recorded

    messages = generate.load(ROOT / "schemas" / "kafka")
    examples = {**default_examples(messages, None), **recorded(ROOT)}
    return reference.render_reference(messages, reference.load_facts(ROOT / "schemas"), examples)


def on_post_build(config: Any) -> None:
    site = Path(config.site_dir)
    (worker,) = site.glob(_WORKER)
    source = re.sub(r"\n//# sourceMappingURL=.*", "", worker.read_text("utf-8"))
    shim = f"{{\nconst source = {json.dumps(source)}\n{_SHIM}}}\n"
    (site / "assets" / "search-from-disk.js").write_text(shim, "utf-8")
    index = (site / "search" / "search_index.json").read_text("utf-8")
    (site / "search" / "search_index.js").write_text(f"var __index = {index}", "utf-8")
