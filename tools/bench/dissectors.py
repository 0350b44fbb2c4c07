"""The Wireshark plugin beside Wireshark's own Kafka dissector: tshark reads the same capture, in fresh processes."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from kafkawire.cli.schema_emit import display_rules, wireshark_messages
from kafkawire.codegen.wireshark import render_wireshark
from tools.bench.job import AbsentError
from tools.bench.measured_commands import CommandError, run
from tools.bench.results import Result
from tools.bench.sample_captures import write_capture
from tools.bench.turns import Cost, all_absent, in_turn, timings

KEY = "wireshark/fields"
PLUGIN, HEADERS, OWN = "plugin", "plugin, headers only", "Wireshark's own"
_TIMES = 20


def _once(command: list[str]) -> Cost:
    try:
        done = run(command)
    except CommandError as error:
        raise AbsentError(str(error)) from error
    return Cost(done.processor, done.processor)


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
        ours = [*read, "-X", f"lua_script:{plugin}"]
        ours += ["-e", "kafkawire.request_api_key", "-e", "kafkawire.correlation_id"]
        runs: dict[str, Callable[[], Cost]] = {
            PLUGIN: partial(_once, ours),
            HEADERS: partial(_once, [*ours, "-o", "kafkawire.bodies:FALSE"]),
            OWN: partial(_once, [*read, "-e", "kafka.api_key", "-e", "kafka.correlation_id"]),
        }
        if tshark:
            costs, absent = in_turn(runs, rounds)
        else:
            costs, absent = {}, all_absent(runs, AbsentError("tshark is not installed"))
    yield Result(
        key=KEY,
        table="wireshark",
        title=f"API key and correlation id, {packets:,} packets",
        unit="packet",
        items=packets,
        size=size,
        timings=timings(costs, (PLUGIN, HEADERS)),
        absent=absent,
    )
