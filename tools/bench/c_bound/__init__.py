"""The C bound (`bound.c`): a lower bound of the time, as a job. It is compiled on first use."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shlex
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from tools.bench.job import AbsentError, Job, digest
from tools.broker.jars import cache_dir

_SOURCE = Path(__file__).with_name("bound.c")


def codec(operation: str, message: str, version: str, path: str) -> Job:
    """One message, read or written by C that checks little.

    Args:
        operation: "decode" or "encode". `message`: the class's name. `version`: a number.
        path: of the file with the message's bytes.
    """
    from kafkawire import messages

    cls = getattr(messages, message)
    table = cls.codec.table
    root = table.roots[int(version) - table.first_version]
    layouts = tuple(
        (
            cls.codec.classes[layout.struct],
            layout.flexible,
            layout.min_size,
            tuple(map(tuple, layout.ops)),
            tuple(map(tuple, layout.tags)),
        )
        for layout in table.layouts
    )
    bound = _module().Codec(layouts)
    data = Path(path).read_bytes()
    value = bound.decode(data, root)
    if value != cls.decode(data, int(version)):
        raise RuntimeError(f"the bound reads another {message}")
    decode, encode = bound.decode, bound.encode
    run = (lambda: decode(data, root)) if operation == "decode" else (lambda: encode(value, root))
    return Job(run, digest(encode(value, root)), len(data))


def _module() -> Any:
    """`bound.c`, compiled for this Python; kept under the digest of its source."""
    name = f"bound-{hashlib.sha256(_SOURCE.read_bytes()).hexdigest()[:12]}{sysconfig.get_config_var('EXT_SUFFIX')}"
    library = cache_dir() / "bench" / name
    if not library.exists():
        library.parent.mkdir(parents=True, exist_ok=True)
        part = library.with_name(f".{os.getpid()}-{name}")
        compiler = shlex.split(os.environ.get("CC") or "cc")
        include = sysconfig.get_paths()["include"]
        command = [*compiler, "-O2", "-fPIC", "-shared", f"-I{include}", "-o", str(part), str(_SOURCE)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            raise AbsentError(f"no C compiler: cannot run {compiler[0]}: {error.strerror}") from error
        if done.returncode:
            reason = next((line for line in done.stderr.splitlines() if "error" in line), "no error text")
            raise AbsentError(f"the C bound cannot be compiled here: {reason}")
        part.rename(library)
    spec = importlib.util.spec_from_file_location("bound", library)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
