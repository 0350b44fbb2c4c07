"""A Java process of a cluster with a folder of its own: its start, its stop, and its output; a broker, or ZooKeeper."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from . import orphans

HOST = "127.0.0.1"
TAIL_LINES = 40

#: Kafka from 4.0 on, and before.
_LOG4J2 = """\
status = error
rootLogger.level = {level}
rootLogger.appenderRef.console.ref = console
# Hundreds of lines that only list the defaults.
logger.config.name = org.apache.kafka.common.config.AbstractConfig
logger.config.level = warn
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = [%d] %p %m (%c)%n
"""
_LOG4J1 = """\
log4j.rootLogger={level}, console
log4j.logger.kafka.server.KafkaConfig=warn
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=[%d] %p %m (%c)%n
"""


@dataclass(eq=False)
class JavaProcess:
    """Its folder holds its properties and `broker.log` (all it printed, over all its starts)."""

    folder: Path
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False, kw_only=True)

    @property
    def log_file(self) -> Path:
        return self.folder / "broker.log"

    @property
    def properties_file(self) -> Path:
        return self.folder / "server.properties"

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def write_properties(
        self, properties: Mapping[str, str], *, log_level: str = "info", loggers: Mapping[str, str] | None = None
    ) -> None:
        """Makes the folder, and writes its properties and the configuration of its log.

        Args:
            properties: by name. `log_level`: of the root logger.
            loggers: levels of further loggers, by name.
        """
        self.folder.mkdir(parents=True)
        # Java reads these files as ISO 8859-1 with backslash escapes.
        lines = [f"{_escape(k)}={_escape(v)}\n" for k, v in properties.items()]
        self.properties_file.write_text("".join(lines), encoding="ascii")
        own = "".join(
            f"logger.own{i}.name = {name}\nlogger.own{i}.level = {level}\n"
            for i, (name, level) in enumerate((loggers or {}).items())
        )
        (self.folder / "log4j2.properties").write_text(_LOG4J2.format(level=log_level) + own, encoding="ascii")
        own = "".join(f"log4j.logger.{name}={level}\n" for name, level in (loggers or {}).items())
        (self.folder / "log4j.properties").write_text(_LOG4J1.format(level=log_level) + own, encoding="ascii")

    def java_command(self, java: str, jars: Path, heap: str, main: str, *arguments: str) -> list[str]:
        """The command of a class of Kafka's, which logs to the process's folder.

        Args:
            java: path of the executable. `jars`: folder of the class path. `heap`: as -Xmx has it.
            main: the class. `arguments`: its command line.
        """
        return [
            java,
            f"-Xmx{heap}",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",  # starts in three quarters of the time; these brokers live for seconds
            "-XX:+ExitOnOutOfMemoryError",
            f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}",
            f"-Dlog4j.configuration={(self.folder / 'log4j.properties').as_uri()}",
            "-cp",
            str(jars / "*"),
            main,
            *arguments,
        ]

    def spawn(self, command: list[str]) -> subprocess.Popen[bytes]:
        """Starts a Java program in this folder; what it prints goes to `log_file`."""
        with self.log_file.open("ab") as log:
            # A session of its own: Ctrl-C at a terminal reaches us, and we stop the brokers in good order.
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        orphans.watch(process.pid)
        return process

    def terminate(self) -> None:
        """Asks for a clean stop (SIGTERM) and does not wait for it."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)

    def wait_stopped(self, timeout: float) -> bool:
        """Waits for the process to end, kills it after `timeout` seconds. True if it ended by itself."""
        if self.process is None:
            return True
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            return False
        else:
            return True
        finally:  # also when Ctrl-C interrupts the wait
            self.kill()

    def kill(self) -> None:
        """Ends the process at once, if there is one."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            orphans.forget(self.process.pid)
            self.process = None

    def log_tail(self, lines: int = TAIL_LINES) -> str:
        """The last lines that it printed."""
        try:
            with self.log_file.open("rb") as log:
                log.seek(max(0, os.fstat(log.fileno()).st_size - 256 * lines))
                text = log.read().decode(errors="replace")
        except FileNotFoundError:
            return ""
        return "\n".join(text.splitlines()[-lines:])


def _escape(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    return "".join(c if c.isascii() else "".join(f"\\u{u:04x}" for u in _utf16(c)) for c in escaped)


def _utf16(char: str) -> list[int]:
    data = char.encode("utf-16-be")
    return [int.from_bytes(data[i : i + 2]) for i in range(0, len(data), 2)]


# Nodes ----------------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class _Numbered:
    node_id: int


@dataclass(eq=False)
class BrokerNode(JavaProcess, _Numbered):
    """A broker, or a controller. Its folder contains its log and `data/`, `data-2/`, ... (log.dirs)."""

    port: int
    controller_port: int
    disks: int = 1

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def controller_address(self) -> str:
        return f"{HOST}:{self.controller_port}"

    @property
    def log_dir(self) -> Path:
        """The first of its log directories, which has the metadata log."""
        return self.folder / "data"

    @property
    def log_dirs(self) -> tuple[Path, ...]:
        return (self.log_dir, *(self.folder / f"data-{number}" for number in range(2, self.disks + 1)))


@dataclass(eq=False)
class ZooKeeper(JavaProcess):
    """The one ZooKeeper server of a cluster of brokers older than KRaft."""

    port: int

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def properties(self) -> Mapping[str, str]:
        return {
            "dataDir": str(self.folder / "data"),
            "clientPort": str(self.port),
            "clientPortAddress": HOST,
            "maxClientCnxns": "0",
            "admin.enableServer": "false",
        }
