"""Every command that golden files, pages of the documentation, help texts and `docs/deploy` print is run as it stands,
in a world that has what it names (`printed_world`). Those of live answers on real brokers: `test_cli_why_symptoms.py`.
"""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from tests.cli.printed_world import World, cluster_of
from tests.cli.runner import Run
from tests.cli.test_cli_help import COMMANDS
from tests.cli.test_cli_printed_commands import check, commands_of_files, printed
from tests.docs.guide import PAGES, ROOT, blocks, commands
from tests.recorded_clusters import STOPPED, Copy

#: What is not run here, as a regular expression, and where it is.
ELSEWHERE = {
    r"--engine spark": "Spark: tests/spark",
    r"^--install-completion": "it changes the user's shell: test_cli_completion.py",
    r"^conformance ": "an adapter of one's own: tests/vectors",
    r"^explain .*--bootstrap-server .*--share-group": "share groups of a cluster: tests/cli/test_cli_explain_shares.py",
    r"^explain .*--bootstrap-.*--partition-history": "controllers: tests/cli/test_cli_explain_history_broker.py",
    r"--tier-key": "an encrypted tier: tests/logdir/test_logdir_tier_objects.py",
}
#: Commands that run until they are ended.
_SERVING = re.compile(r"^(?:proxy|mock)\b|^txn watch (?!.*--once)|^capture .*--follow")


def _of_pages() -> Iterator[tuple[str, list[str]]]:
    for page in PAGES:
        if "guide-0.1.0" in page:  # of an older release
            continue
        for block in blocks(page):
            if block.language not in ("python", "console"):  # consoles are run by test_docs_examples.py
                for words in commands(block.text):
                    yield str(block), words


def _of_golden_files() -> Iterator[tuple[str, list[str]]]:
    for path, command in commands_of_files():
        program, *words = shlex.split(command, comments=True)
        if program == "kafkawire":  # Kafka's own tool: test_cli_txn_stock.py
            yield str(path), words


def _of_deployment() -> Iterator[tuple[str, list[str]]]:
    """The commands of containers and services."""
    folder = ROOT / "docs" / "deploy"
    for document in yaml.safe_load_all((folder / "kubernetes.yml").read_text()):
        for container in (document.get("spec") or {}).get("template", {}).get("spec", {}).get("containers", ()):
            words = [str(word) for word in (*container.get("command", ()), *container.get("args", ()))]
            split = [part for word in words for part in word.split("=", 1)]
            yield "docs/deploy/kubernetes.yml", split[split.index("txn") :]
    unit = (folder / "kafkawire-watch.service").read_text().replace("\\\n", " ")
    for name, value in re.findall(r"\b([A-Z]+)=(\S+)", unit):
        unit = unit.replace(f"${{{name}}}", value)
    for line in unit.splitlines():
        if line.startswith("ExecStart="):
            words = shlex.split(line)
            yield "docs/deploy/kafkawire-watch.service", words[words.index("txn") :]


def collected() -> list[tuple[str, list[str]]]:
    """Each command once, with the first place that prints it."""
    found = {}
    for place, words in (*_of_golden_files(), *_of_pages(), *_of_deployment()):
        found.setdefault(tuple(words), place)
    return [(place, list(words)) for words, place in found.items()]


EVERY = collected()


def elsewhere(words: list[str]) -> str | None:
    text = " ".join(words)
    return next((where for pattern, where in ELSEWHERE.items() if re.search(pattern, text)), None)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("world"))


@pytest.fixture(autouse=True)
def in_the_world(world: World, monkeypatch: pytest.MonkeyPatch, state_home: Path) -> None:
    monkeypatch.chdir(world.root)


def check_runs(answering: Run, world: World, words: list[str]) -> None:
    """It ends with an answer; what it asks is answered with yes."""
    with cluster_of(words) as broker:
        argv = world.words(words, broker.address)
        stdin = (world.root / "trace.pcap").read_bytes() if argv[-1] == "-" else b"y\ny\ny\n"
        result = answering(*argv, stdin=stdin)
        assert result.code in (0, 3, 4, 5), (argv, result.err)


def serves(words: list[str]) -> bool:
    """Whether it runs until it is ended."""
    return _SERVING.search(" ".join(words)) is not None


def free_ports(argv: list[str]) -> list[str]:
    """With a port that is free in place of that after --listen, or of the one by default."""
    if "--listen" not in argv and argv[0] in ("mock", "proxy"):
        return [*argv, "--listen", "0"]
    place = argv.index("--listen") + 1 if "--listen" in argv else None
    return [re.sub(r"\d+$", "0", word) if at == place else word for at, word in enumerate(argv)]


@pytest.mark.slow
@pytest.mark.parametrize(("place", "words"), EVERY, ids=lambda one: " ".join(one)[:80] if isinstance(one, list) else "")
def test_printed_command_runs(answering: Run, world: World, place: str, words: list[str]) -> None:
    if elsewhere(words) is None and not serves(words):
        check_runs(answering, world, words)


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_examples_of_help_run(answering: Run, world: World, command: tuple[str, ...]) -> None:
    shown = answering(*command, "--help").text
    for words in commands(re.split(r"\n\n[A-Z][^\n]*:\n  \S", shown)[0]):
        if elsewhere(words) is None and not serves(words):
            check_runs(answering, world, words)


def shape(words: list[str]) -> tuple[str, ...]:
    """A command without the values of its options."""
    return tuple(word for word in words if word.startswith("--") or word in words[:2])


@pytest.mark.slow
@pytest.mark.parametrize("copy", STOPPED, ids=str)
def test_commands_of_answers_on_recorded_clusters_run(answering: Run, world: World, copy: Copy) -> None:
    """Of every configuration of a cluster: audit, its page, and why; what verdicts depended on is in the command. All
    are valid, and of those that differ in values alone one is run."""
    limit, page = ("--max-transaction-timeout", 3), world.root / "page.html"
    text = answering("audit", copy.path, *copy.options, *limit, "--format", "table", "--report", page).text
    text += page.read_text()
    topics = {one[0] for one in copy.left_open("hanging")}
    for topic in sorted(topics):
        text += answering(
            "why", copy.path, "--topic", topic, *copy.options, *limit, "--format", "table", "--evidence"
        ).text
    found = {shape(words): words for words in (shlex.split(one, comments=True) for one in printed(text))}
    for command in printed(text):
        check(command)
        if re.match(r"kafkawire txn (abort|force-terminate)", command):
            assert "--max-transaction-timeout 3" in command
    assert any(words[:3] == ["kafkawire", "txn", "abort"] for words in found.values()) or not topics
    for program, *words in found.values():
        if program == "kafkawire":
            check_runs(answering, world, words)


@pytest.mark.slow
def test_commands_that_serve_run_until_they_are_ended(answering: Run, world: World) -> None:
    """All at the same time; each prints nothing but notes, and ends with a signal's code."""
    of_help = [words for command in COMMANDS for words in commands(answering(*command, "--help").text)]
    serving = {tuple(words) for words in (*(words for _, words in EVERY), *of_help) if serves(words)}
    assert len(serving) > 10
    with ExitStack() as stack:
        broker = stack.enter_context(cluster_of(["--topic", "orders"]))
        processes = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-m", "kafkawire", *free_ports(world.words(list(words), broker.address))],
                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                )
            )
            for words in sorted(serving)
        ]  # fmt: skip
        time.sleep(0.5 * len(processes))
        early = [process.args for process in processes if process.poll() is not None]
        for process in processes:
            process.terminate()
        errors = [process.communicate(timeout=60)[1] for process in processes]
    assert early == [], errors
    assert {process.returncode for process in processes} <= {0, 143, -signal.SIGTERM}, errors


@pytest.mark.slow
def test_most_commands_are_run_and_no_exception_is_left_over(answering: Run) -> None:
    of_help = [words for command in COMMANDS for words in commands(answering(*command, "--help").text)]
    every = [*(words for _, words in EVERY), *of_help]
    assert len(every) > 200
    assert sum(elsewhere(words) is not None for words in every) < 0.1 * len(every)
    for pattern in ELSEWHERE:
        assert any(re.search(pattern, " ".join(words)) for words in every), pattern
