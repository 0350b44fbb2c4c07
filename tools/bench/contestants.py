"""Contestants: each is a process with one job, started for one case and ended after it.

So garbage, caches and compiled code of one contestant do not affect another, engines of kafkawire are chosen by
`KAFKAWIRE_BACKEND`, and contestants can take turns. Their standard output is /dev/null; replies come through a pipe.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from tools import ROOT
from tools.bench.job import AbsentError
from tools.broker.errors import BrokerUnavailableError
from tools.broker.jars import broker_jars, java, tools_jars
from tools.oracle.build import OracleUnavailableError, compiled

_JAVA_SOURCES = Path(__file__).with_name("java")
_LOG4J = ROOT / "tools" / "broker" / "tools-log4j2.properties"
_JVM = ("-Xms1g", "-Xmx1g", "-XX:+UseSerialGC", "-Xshare:auto", f"-Dlog4j2.configurationFile={_LOG4J}")


class BrokenContestantError(Exception):
    """A contestant's process ended where an answer was expected; the message is its last line of standard error."""


@dataclass(frozen=True)
class Entrant:
    """A participant of a case: a name, the command that starts its worker, its job, and seconds of warm-up."""

    name: str
    command: Callable[[], list[str]]
    job: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    warm_up: float = 0.05
    ours: bool = False


def kafkawire(engine: str, job: str, /, variant: str = "", **options: str) -> Entrant:
    """One of our engines; `job` is a function of `tools.bench.kafkawire_jobs`.

    Args:
        engine: "native" or "python". `variant`: distinguishes two contestants of one engine.
        options: arguments of the job, as text.
    """
    return Entrant(
        f"kafkawire {engine}" + (f", {variant}" if variant else ""),
        _python,
        (f"tools.bench.kafkawire_jobs:{job}", *_pairs({"engine": engine, **options})),
        {"KAFKAWIRE_BACKEND": engine},
        ours=True,
    )


def command(engine: str, job: str, /, **options: str) -> Entrant:
    """One of our engines in a command; `job` is a function of `tools.bench.command_jobs`."""
    return Entrant(
        f"kafkawire {engine}",
        _python,
        (f"tools.bench.command_jobs:{job}", *_pairs({"engine": engine, **options})),
        ours=True,
    )


def python_peer(name: str, job: str, /, **options: str) -> Entrant:
    """Another library; `job` names a function: `library_jobs:kio` is `tools.bench.library_jobs.kio`."""
    return Entrant(name, _python, (f"tools.bench.{job}", *_pairs(options)))


def kafka_java(job: str, /, *arguments: str, variant: str = "") -> Entrant:
    """Kafka's own classes of release 4.4.0."""
    return Entrant("Java" + (f", {variant}" if variant else ""), _java, (job, *arguments), warm_up=2.0)


def dump_log(file: str, small: str, *options: str) -> Entrant:
    """`kafka-dump-log.sh` of release 4.3.1, in a JVM that stays warm."""
    return Entrant("kafka-dump-log", _dump_log, ("dump", file, small, *options), warm_up=6.0)


class Contestant:
    """The process of an entrant. `check` is the digest of its result.

    Raises AbsentError if it cannot take part, BrokenContestantError if it fails.
    """

    def __init__(self, entrant: Entrant) -> None:
        self.entrant = entrant
        command = entrant.command()
        read, write = os.pipe()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `close`)
        # A worker opens the pipe under its name: its standard output belongs to the job.
        self._process = subprocess.Popen(
            [*command, f"/dev/fd/{write}", *entrant.job],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            pass_fds=(write,),
            env=environment(entrant),
            cwd=ROOT,
            text=True,
        )
        os.close(write)
        self._replies = os.fdopen(read, encoding="utf-8")
        try:
            word, _, rest = self._reply().partition(" ")
        except BrokenContestantError:
            self.close()
            raise
        if word == "absent":
            self.close()
            raise AbsentError(rest)
        self.check = rest

    def run(self, times: int) -> tuple[float, float]:
        """Runs the job `times` times. Returns CPU seconds of the thread and of the process."""
        thread, process = map(int, self._ask(str(times)).split())
        return thread / 1e9, process / 1e9

    def memory(self) -> tuple[int, int, int]:
        """Bytes and blocks that a result keeps; bytes that making one takes (Python: at most at once; Java: in all)."""
        retained, blocks, taken = map(int, self._ask("memory").split())
        return retained, blocks, taken

    def _ask(self, line: str) -> str:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # `_reply` raises, because no reply comes
        return self._reply()

    def _reply(self) -> str:
        line = self._replies.readline()
        if not line:
            self._process.wait()
            self._errors.seek(0)
            errors = self._errors.read().decode("utf-8", "replace").strip().splitlines()
            raise BrokenContestantError(errors[-1] if errors else f"it ended with {self._process.returncode}")
        return line.rstrip("\n")

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._replies.close()
        self._process.wait()
        self._errors.close()


def environment(entrant: Entrant) -> dict[str, str]:
    """The environment variables of an entrant's process."""
    return {**os.environ, "PYTHONHASHSEED": "0", **entrant.environment}


def _python() -> list[str]:
    return [sys.executable, "-m", "tools.bench.worker"]


def _java() -> list[str]:
    return _jvm(broker_jars)


def _dump_log() -> list[str]:
    return _jvm(tools_jars)


@cache
def _classes() -> Path:
    return compiled("bench", sorted(_JAVA_SOURCES.rglob("*.java")), sorted(broker_jars().glob("*.jar")))


def _jvm(jars: Callable[[], Path]) -> list[str]:
    try:
        path = f"{_classes()}:{jars()}/*"
        return [java(), *_JVM, "-cp", path, "bench.Main"]
    except (BrokerUnavailableError, OracleUnavailableError) as error:
        raise AbsentError(str(error)) from error


def _pairs(options: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in options.items()]
