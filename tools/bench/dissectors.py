"""The Wireshark plugin beside Wireshark's own Kafka dissector: tshark reads the same capture, in fresh processes."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from kafkawire.cli.schema_emit import display_rules, wireshark_messages
from kafkawire.codegen.wireshark import render_wireshark
from tools.bench.results import AbsentContestant, Result, Timing
from tools.bench.sample_captures import write_capture

KEY = "wireshark/fields"
PLUGIN, HEADERS, OWN = "plugin", "plugin, headers only", "Wireshark's own"
_TIMES = 20


def _once(command: list[str]) -> float | str:
    """CPU seconds of a process, or its last line of standard error if it failed."""
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors) as child,
    ):
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode == 0:
            return usage.ru_utime + usage.ru_stime
        errors.seek(0)
        return (errors.read().decode("utf-8", "replace").strip().splitlines() or ["no error text"])[-1]


def dissectors(rounds: int) -> Iterator[Result]:
    """One case: two fields of every frame, printed with `-T fields`."""
    tshark = os.environ.get("TSHARK") or shutil.which("tshark")
    with tempfile.TemporaryDirectory() as folder:
        plugin, capture = Path(folder) / "kafkawire.lua", Path(folder) / "capture.pcap"
        plugin.write_text(render_wireshark(wireshark_messages(None), display_rules()), "utf-8")
        packets = write_capture(capture, _TIMES)
        size = capture.stat().st_size
        os.chmod(folder, 0o755)  # tshark may give up rights
        read = [tshark or "", "-r", str(capture), "-T", "fields"]
        ours = [
            *read,
            "-X",
            f"lua_script:{plugin}",
            "-e",
            "kafkawire.request_api_key",
            "-e",
            "kafkawire.correlation_id",
        ]
        commands = {
            PLUGIN: ours,
            HEADERS: [*ours, "-o", "kafkawire.bodies:FALSE"],
            OWN: [*read, "-e", "kafka.api_key", "-e", "kafka.correlation_id"],
        }
        times: dict[str, list[float]] = {name: [] for name in commands}
        absent: dict[str, str] = {} if tshark else dict.fromkeys(commands, "tshark is not installed")
        for _ in range(rounds):
            for name, command in commands.items():
                if name not in absent:
                    found = _once(command)
                    if isinstance(found, str):
                        absent[name] = found
                    else:
                        times[name].append(found)
    yield Result(
        key=KEY,
        table="wireshark",
        title=f"API key and correlation id, {packets:,} packets",
        unit="packet",
        items=packets,
        size=size,
        timings=tuple(
            Timing(contestant=name, ours=name != OWN, seconds=tuple(found), process=sorted(found)[len(found) // 2])
            for name, found in times.items()
            if found and name not in absent
        ),
        absent=tuple(AbsentContestant(contestant=name, why=why) for name, why in absent.items()),
    )
