"""Kafka's own command line tools (org.apache.kafka.tools.*), as users run them."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path

from .errors import BrokerToolError
from .jars import TOOLS_VERSION, java, tools_jars
from .storage import ClassArchive

_TIMEOUT_S = 120
_LOG4J = Path(__file__).with_name("tools-log4j2.properties")


#: Flags of the JVM: those that let it start fastest, and those that Kafka's own script gives (kafka-run-class.sh).
FAST_START = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
RUN_CLASS = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
    "-Dcom.sun.management.jmxremote=true",
    "-Dcom.sun.management.jmxremote.authenticate=false",
    "-Dcom.sun.management.jmxremote.ssl=false",
)


def tool_command(
    main: str,
    *arguments: str,
    version: str = TOOLS_VERSION,
    flags: Sequence[str] = FAST_START,
) -> list[str]:
    """The command that runs `org.apache.kafka.tools.<main>`.

    Raises BrokerUnavailableError where Java or the jars are missing.

    Args:
        main: the class, "DumpLogSegments". `arguments`: its command line.
        version: release of the jars. `flags`: of the JVM.
    """
    libs = tools_jars(version)
    return [
        java(),
        "-Xmx256m",
        *flags,
        f"-Dlog4j2.configurationFile={_LOG4J}",
        "-cp",
        str(libs / "*"),
        f"org.apache.kafka.tools.{main}",
        *arguments,
    ]


def run_tool(
    main: str,
    *arguments: str,
    version: str = TOOLS_VERSION,
    statuses: Collection[int] = (0,),
) -> str:
    """Runs `org.apache.kafka.tools.<main>` and returns what it printed on standard output.

    Raises BrokerUnavailableError where Java or the jars are missing, BrokerToolError when it takes longer than
    two minutes or ends with a status that is not among `statuses`.

    Args:
        main, arguments, version: as for `tool_command`. `statuses`: exit codes of success.
    """
    archive = ClassArchive(java(), tools_jars(version), main)
    with tempfile.TemporaryDirectory(prefix="kafkawire-tool-") as folder:
        part = Path(folder) / "classes.jsa"
        flags = (*FAST_START, *archive.options(part))
        command = tool_command(main, *arguments, version=version, flags=flags)
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired:
            raise BrokerToolError(f"{main} has not ended in {_TIMEOUT_S} s") from None
        archive.keep(part)
    if done.returncode not in statuses:
        output = (done.stderr.strip() or done.stdout.strip())[-1000:]
        raise BrokerToolError(f"{main} {' '.join(arguments)}: status {done.returncode}: {output}")
    return done.stdout
