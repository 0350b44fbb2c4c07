"""Readers that kaitai-struct-compiler makes, of Python and of JavaScript: bytes -> a plain tree, alike for both.

The compiler comes from npm, once, into the cache of Kafka's jars; what it makes is kept beside it, by content.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tools.broker.jars import cache_dir
from tools.kept_folder import kept

PACKAGES = ("kaitai-struct-compiler@0.11.0", "kaitai-struct@0.11.0", "js-yaml@4.1.0")
LANGUAGES = ("python", "javascript")

_SCRIPT = Path(__file__).with_name("kaitai.js")
_TIMEOUT_S = 300

#: the id of a file, arguments, bytes
Question = tuple[str, tuple[Any, ...], bytes]
Tree = dict[str, Any]


def compiled(files: Mapping[str, str], languages: Iterable[str] = LANGUAGES) -> Path:
    """The folder with what the compiler makes of `.ksy` files, a folder a language; skips the test without compiler."""
    modules = _modules()
    digest = hashlib.sha256(_SCRIPT.read_bytes())
    for part in (*PACKAGES, *languages, *(text for item in sorted(files.items()) for text in item)):
        digest.update(part.encode() + b"\0")

    def fill(folder: Path) -> None:
        source = folder / "ksy"
        source.mkdir()
        for name, text in files.items():
            (source / name).write_text(text, "utf-8")
        done = _node(modules, str(_SCRIPT), "compile", str(source), str(folder), *languages)
        assert done.returncode == 0, done.stderr

    return kept(cache_dir() / "kaitai" / digest.hexdigest()[:12], fill)


def _modules() -> Path:
    """The compiler's `node_modules`; skips the test where Node.js, npm or the registry is missing."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("no node or npm in PATH: kaitai-struct-compiler comes from npm")

    def fill(folder: Path) -> None:
        command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(folder), *PACKAGES]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        if done.returncode:
            pytest.skip(f"npm cannot fetch {PACKAGES[0]}: {done.stderr.strip()[-300:]}")

    return kept(cache_dir() / "kaitai" / "-".join(PACKAGES).replace("@", "-"), fill) / "node_modules"


def _node(modules: Path, *words: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [shutil.which("node") or "node", *words],
        input=text,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
        env=os.environ | {"NODE_PATH": str(modules)},
    )


def run_javascript(folder: Path, text: str) -> str:
    """The output of a program beside the compiled readers."""
    (made := folder / "javascript" / "program.js").write_text(text, "utf-8")
    done = _node(_modules(), str(made))
    assert done.returncode == 0, done.stderr
    return done.stdout


# Reading -------------------------------------------------------------------------------------------------------------


def read_with_javascript(folder: Path, questions: Iterable[Question]) -> list[Tree]:
    """For each question `{"tree", "consumed"}` or `{"error"}`. Keys of trees are ids in small letters, without `_`."""
    lines = "".join(
        json.dumps({"type": _class_of(type_), "args": args, "bytes": data.hex()}) + "\n"
        for type_, args, data in questions
    )
    done = _node(_modules(), str(_SCRIPT), "read", str(folder / "javascript"), text=lines)
    assert done.returncode == 0, done.stderr
    return [json.loads(line, object_hook=_integers) for line in done.stdout.splitlines()]


def _integers(tree: Tree) -> Any:
    return int(tree["integer"]) if tree.keys() == {"integer"} else tree


def read_with_python(folder: Path, questions: Iterable[Question]) -> list[Tree]:
    """As `read_with_javascript`."""
    with python_readers(folder):
        return [_read(*question) for question in questions]


@contextmanager
def python_readers(folder: Path) -> Iterator[None]:
    """Makes the modules of a folder importable, and forgets them: other folders have modules of the same names."""
    sys.path.append(str(folder / "python"))
    try:
        yield
    finally:
        sys.path.remove(str(folder / "python"))
        for name in {path.stem for path in (folder / "python").glob("*.py")}:
            sys.modules.pop(name, None)


def _read(type_: str, args: tuple[Any, ...], data: bytes) -> Tree:
    from kaitaistruct import KaitaiStream

    made = getattr(import_module(type_), _class_of(type_))
    stream = KaitaiStream(io.BytesIO(data))
    try:
        return {"tree": _plain(made(*args, stream)), "consumed": stream.pos()}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    if isinstance(value, float) and not math.isfinite(value):
        return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
    if value is None or isinstance(value, bool | int | float | str):
        return int(value) if isinstance(value, int) and not isinstance(value, bool) else value
    found = {key: item for key, item in vars(value).items() if not key.startswith("_")}
    for key in ("value", "raw"):
        if key not in found and getattr(type(value), key, None) is not None:
            found[key] = getattr(value, key)
    return {key.replace("_", ""): _plain(item) for key, item in found.items() if item is not None}


def _class_of(id: str) -> str:
    """The class of a file's id: `fetch_request` -> `FetchRequest`."""
    return "".join(part[:1].upper() + part[1:] for part in id.split("_"))
