"""Command lines for every command, in a world of hostile names."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Sequence

from kafkawire.cli.output import Format
from tests.cli.hostile import ALL, LOST, NAMES, TEXTS, as_file
from tests.cli.hostile_world import FILE_NAMES, World

Arguments = Callable[[World], Sequence[str]]
WRONG, USAGE, FOUND, PARTLY, BOTH = 1, 2, 3, 4, 5
LONG_FILE = as_file(ALL)[:120]
#: How a command that judges may end.
ENDS = (0, FOUND, PARTLY, BOTH)


@dataclasses.dataclass(frozen=True)
class Case:
    """A command line.

    Attributes:
        command: its words. `arguments`: what comes after them.
        names: those that its output contains, on either stream.
        codes: how it may end.
        formats: those to print; by default all, where it has --format.
    """

    command: str
    arguments: Arguments
    names: Sequence[str] = ()
    codes: tuple[int, ...] = (0,)
    formats: tuple[Format, ...] = tuple(Format)

    def line(self, world: World) -> list[str]:
        return [*self.command.split(), *self.arguments(world)]


class WorldFile(str):
    """The name of a file of the world: as a type, for any other text may be a hostile name."""


def given(*arguments: str) -> Arguments:
    return lambda world: [world.path(one) if isinstance(one, WorldFile) else one for one in arguments]


def txn(*arguments: str) -> Arguments:
    def line(world: World) -> list[str]:
        where = ["--bootstrap-server", world.broker.address, "--command-config", world.path("client.properties")]
        return [*where, *given(*arguments)(world)]

    return line


def codec(answer: object) -> Arguments:
    """A program that answers each question so."""
    program = "import sys\nfor _ in sys.stdin: print(sys.argv[1], flush=True)"
    return given("--", sys.executable, "-c", program, json.dumps(answer))


def partition(topic: str) -> tuple[str, ...]:
    return ("--topic", topic, "--partition", "0")


TOPICS = [word for name in NAMES for word in ("--topic", name)]
IDS = [word for name in NAMES for word in ("--transactional-id", name)]
QUICK = ("--confirm-after", "0.01")
DRY = (*QUICK, "--dry-run")
ONE = ("--topic", TEXTS["escape"], "--partition", "0", "--start-offset", str(LOST))
#: A schema's file is UTF-8, and blanks of its prose become one.
IN_SCHEMAS = [name for kind, name in TEXTS.items() if kind not in ("bytes", "lines", "newline")]
NOWHERE = ("--bootstrap-server", "127.0.0.1:1")
MESSAGE = ("DescribeTransactionsRequest", "--version", "0")

CASES = [
    Case("decode", given(*MESSAGE, WorldFile("message.bin")), NAMES),
    Case("decode", given(*MESSAGE, WorldFile("message.bin"), "--compact"), NAMES),
    Case("decode", given("--frame", WorldFile("frame.bin")), (*NAMES, ALL)),
    Case("decode", given(*MESSAGE, ALL[:60]), [ALL[:60]], (WRONG,)),
    Case("decode", given(ALL, "--version", "0", "00"), [], (USAGE,)),
    Case("decode", given("Strange", "--version", ALL, "--schemas", WorldFile("schemas"), "00"), (), (USAGE,)),
    Case("decode", given("Strange", "--version", "0", "--schemas", WorldFile("wrong"), "00"), FILE_NAMES, (WRONG,)),
    Case("encode", given(*MESSAGE, WorldFile("message.json"))),
    Case("encode", given(*MESSAGE, json.dumps({"transactionalIds": [], ALL: 1})), NAMES, (WRONG,)),
    Case("encode", given(*MESSAGE, f'{{"transactionalIds": ["{ALL}"]}}'), [], (WRONG,)),
    Case("capture", given(WorldFile("trace.pcap")), NAMES),
    Case("capture", given(WorldFile("trace.pcap"), "--body"), NAMES),
    Case("capture", given(WorldFile("trace.pcap"), "--records"), NAMES),
    Case("capture", given(WorldFile("trace.pcap"), "--stats"), NAMES),
    Case("capture", given(WorldFile("trace.pcap"), "--breaks-at", "4.0"), (), (0, FOUND, PARTLY, BOTH)),
    Case("capture", given(WorldFile("trace.pcap"), "--breaks-at", ALL), (), (USAGE,)),
    *(Case("capture", given(WorldFile("trace.pcap"), "--timeline", name)) for name in NAMES[:2]),
    Case("capture", given(WorldFile("trace.pcap"), "--timeline", f"no {ALL}"), NAMES),
    Case("capture", given(WorldFile("trace.pcap"), "--api", ALL), NAMES, (USAGE,)),
    Case("capture", given(*(WorldFile(name) for name in FILE_NAMES)), FILE_NAMES, (0, PARTLY)),
    Case("capture", given(*(f"no {name}" for name in FILE_NAMES)), FILE_NAMES[:1], (WRONG,)),
    Case("dump", given(WorldFile("logs")), FILE_NAMES),
    Case("dump", given(WorldFile("logs"), "--print-data-log"), [one for one in NAMES if one != TEXTS["bytes"]]),
    Case("dump", given(WorldFile("logs"), "--stats"), FILE_NAMES),
    Case("dump", given(WorldFile("broken"), "--index-sanity-check"), (), (0, PARTLY)),
    Case("dump", given(WorldFile("broken")), FILE_NAMES, (WRONG, PARTLY)),
    Case("dump", given(f"no {LONG_FILE}"), FILE_NAMES[:2], (USAGE,)),
    *(Case("explain", given(WorldFile("logs"), *partition(topic)), [topic]) for topic in FILE_NAMES[::3]),
    Case("explain", given(WorldFile("logs"), *partition(FILE_NAMES[0]), "--offset", "0"), [FILE_NAMES[0], NAMES[0]]),
    Case("explain", given(WorldFile("broken"), *partition(FILE_NAMES[1])), FILE_NAMES[1:2], (WRONG, PARTLY)),
    Case("explain", given(WorldFile("logs"), *partition(ALL)), (), (USAGE,)),
    *(Case("why", given(WorldFile("logs"), "--topic", topic), [], (0, FOUND, PARTLY, BOTH)) for topic in FILE_NAMES),
    Case("why", given(WorldFile("logs"), "--topic", FILE_NAMES[0], "--evidence"), [], (0, FOUND, PARTLY, BOTH)),
    Case("why", given(WorldFile("broken"), "--topic", FILE_NAMES[1]), (), (WRONG, FOUND, PARTLY, BOTH)),
    Case("why", given(WorldFile("logs"), "--group", ALL), (), (WRONG, FOUND, PARTLY, BOTH)),
    *(Case("why", given(WorldFile("logs"), "--transactional-id", name), (), (FOUND, BOTH)) for name in NAMES[:2]),
    Case("why", given(WorldFile("logs"), "--transactional-id", NAMES[0], "--history"), (), (0, WRONG, PARTLY)),
    *(Case("why", txn(*QUICK, "--topic", name), [name], (FOUND, BOTH)) for name in NAMES),
    *(Case("why", txn(*QUICK, "--topic", name, "--evidence"), [name], (FOUND, BOTH)) for name in NAMES[:2]),
    Case("why", given(f"UNSTABLE_OFFSET_COMMIT groupId='{ALL}'")),
    Case("why", given(f"nothing {ALL}"), (), (WRONG,)),
    Case("lag", given(WorldFile("logs"), "--group", ALL), (), (WRONG, PARTLY)),
    Case("lag", given(WorldFile("logs")), (), (WRONG, PARTLY)),
    Case("witness", given("--captures", WorldFile("trace.pcap"), "--logs", WorldFile("logs")), (), ENDS),
    Case("witness", given("--captures", WorldFile("trace.pcap"), "--logs", WorldFile("broken")), (), (WRONG, *ENDS)),
    Case("witness", given("--captures", f"no {LONG_FILE}", "--logs", WorldFile("logs")), FILE_NAMES[:1], (WRONG,)),
    Case("witness", given("--captures", WorldFile("trace.pcap"), "--logs", f"no {LONG_FILE}"), (), (WRONG, USAGE)),
    Case("compare", given(WorldFile("logs"), WorldFile("logs")), FILE_NAMES, ENDS),
    Case("compare", given(WorldFile("logs"), WorldFile("logs"), "--by", "order", "--prefix", ALL), (), ENDS),
    Case("compare", given(WorldFile("broken"), WorldFile("logs")), (), (WRONG, *ENDS)),
    Case("compare", given(WorldFile("logs"), WorldFile("logs"), "--topic", f"no {ALL}"), NAMES, (PARTLY,)),
    Case("mock", given("--topic", f"{ALL}:x"), NAMES, (USAGE,)),
    Case("proxy", given("--bootstrap-server", ALL), NAMES, (USAGE,)),
    Case("proxy", given(*NOWHERE, "--listen", ALL), NAMES, (USAGE,)),
    Case("proxy", given(*NOWHERE, "--api", ALL, "--delay-ms", "1"), NAMES, (USAGE,)),
    Case("proxy", given(*NOWHERE, "--error", ALL), NAMES, (USAGE,)),
    Case("proxy", given(*NOWHERE, "--drop", ALL), NAMES, (USAGE,)),
    Case("proxy", given(*NOWHERE, "--listen", "0", "--record", f"no/{LONG_FILE}"), FILE_NAMES[:2], (WRONG,)),
    Case("proxy", given(*NOWHERE, "--command-config", f"no {LONG_FILE}"), FILE_NAMES[:2], (WRONG,)),
    *(
        Case("proxy", given(*NOWHERE, "--tls-certificate", WorldFile(name)), [name], (WRONG, USAGE))
        for name in FILE_NAMES
    ),
    Case("conformance", codec({"error": ALL}), NAMES, (FOUND,)),
    Case("conformance", codec({"json": {ALL: ALL}}), (), (FOUND,)),
    Case("conformance", codec({"json": {"producerId": ALL}}), (), (FOUND,)),
    Case("conformance", codec({ALL: 1}), (), (WRONG,)),
    Case("conformance", given("--", f"no {LONG_FILE}"), FILE_NAMES[:2], (WRONG,)),
    Case("conformance", given("--schemas", WorldFile("wrong"), "--", sys.executable), FILE_NAMES, (WRONG,)),
    Case("audit", given(WorldFile("logs"), "--txn-partitions", "3"), FILE_NAMES, (FOUND,)),
    Case("audit", given(WorldFile("broken")), (), (WRONG, PARTLY)),
    Case("audit", txn(*QUICK, "--resume", WorldFile(f"journal {LONG_FILE}")), FILE_NAMES[:2], (WRONG,)),
    Case("txn list", txn(), NAMES),
    Case("txn list", txn("--state", ALL)),
    Case("txn describe", txn(*IDS), NAMES),
    Case("txn describe", txn(*TOPICS), NAMES),
    Case("txn describe-producers", txn(*TOPICS), NAMES),
    Case("txn describe-producers", txn("--topic", f"no {ALL}"), NAMES, (WRONG,)),
    Case("txn find-hanging", txn(*QUICK), NAMES, (FOUND,)),
    Case("txn find-hanging", txn(*QUICK, "--all"), NAMES, (FOUND,)),
    Case("txn find-hanging", txn(*QUICK, "--topic", f"no {ALL}"), NAMES, (WRONG,)),
    Case("txn abort", txn(*DRY, *ONE), [TEXTS["escape"]]),
    Case("txn abort", txn(*DRY, *TOPICS, "--all-hanging"), NAMES),
    Case("txn abort", txn(*DRY, "--topic", ALL, "--partition", "0", "--start-offset", "1"), NAMES, (WRONG,)),
    *(Case("txn force-terminate", txn(*DRY, "--transactional-id", name), (name,)) for name in NAMES[::4]),
    *(
        Case(
            "txn commit",
            txn(*DRY, "--transactional-id", name, "--producer-id", 1, "--producer-epoch", 0),
            (name,),
            (0, WRONG),
        )
        for name in NAMES[::4]
    ),
    Case("txn forceTerminateTransaction", txn(*DRY, "--transactionalId", NAMES[0]), NAMES[:1]),
    Case("txn doctor", txn(), (), (FOUND, PARTLY, BOTH)),
    Case("txn watch", txn(*QUICK, "--once"), NAMES, (FOUND,)),
    Case("txn watch", txn(*QUICK, "--once", "--all"), NAMES, (FOUND,)),
    *(
        Case("txn watch", txn("--listen", "0", "--web-config", WorldFile(f"web-{number}.yml")), [name], (WRONG,))
        for number, name in enumerate(NAMES)
    ),
    Case("schema list", given("--family", ALL), NAMES, (USAGE,)),
    Case("schema show", given("Strange", "--schemas", WorldFile("schemas")), IN_SCHEMAS),
    Case("schema show", given(ALL), (), (USAGE,)),
    Case("schema export", given("AbortedTxn", "-o", WorldFile(f"out {LONG_FILE}")), FILE_NAMES[:2]),
    Case("schema export", given(ALL), (), (USAGE,)),
    Case(
        "schema generate",
        given("--schemas", WorldFile("schemas"), "--package-doc", ALL, "-o", WorldFile(f"gen {LONG_FILE}")),
    ),
    Case("schema generate", given("--schemas", WorldFile("wrong"), "-o", WorldFile("never")), FILE_NAMES, (WRONG,)),
    Case("schema check", given("--schemas", WorldFile("schemas"))),
    Case("schema check", given("--schemas", WorldFile("wrong")), FILE_NAMES, (WRONG,)),
    Case("schema import", given(WorldFile("schemas"), "-o", WorldFile(f"in {LONG_FILE}"))),
    Case("schema import", given(WorldFile("wrong"), "-o", WorldFile("never")), FILE_NAMES[:2], (WRONG,)),
    Case("schema import", given(WorldFile("schemas"), "--family", ALL, "-o", WorldFile("never")), NAMES, (USAGE,)),
    Case("schema fmt", given("--check", WorldFile("schemas")), (), (WRONG,)),
    Case("schema fmt", given(WorldFile("wrong")), FILE_NAMES, (WRONG,)),
    Case("schema diff", given(WorldFile("older"), WorldFile("schemas")), IN_SCHEMAS, (FOUND,)),
    Case("schema diff", given(WorldFile("older"), WorldFile("wrong")), (), (WRONG,)),
    Case("schema diff", given(WorldFile("older"), ALL), NAMES, (USAGE,)),
    Case("schema emit", given("wireshark", "--schemas", WorldFile("schemas"))),
]
