"""`kafkawire txn watch` as a service: SIGHUP, and the probes of its process, beside a mock broker."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
import typer

from kafkawire.cli.txn_options import Address
from kafkawire.client import Admin
from kafkawire.testing import MockBroker

pytest.importorskip("prometheus_client")
bcrypt = pytest.importorskip("bcrypt")

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("terminal_signals")]
#: After which nothing more is expected of the process.
_LIMIT_S = 90

#: Status of a request, by path and Authorization header.
Status = Callable[..., int]


@pytest.fixture
def watching(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], Status]]:
    """The command, its input and output being no terminal, and what its endpoint answers."""
    web, client = tmp_path / "web.yml", tmp_path / "client.properties"
    web.write_text("")
    client.write_text("client.id=before\n")
    with MockBroker() as broker:
        options = ["--bootstrap-server", broker.address, "--command-config", str(client), "--web-config", str(web)]
        command = [sys.executable, "-m", "kafkawire", "txn", "watch", *options, "--listen", "0"]
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen([*command, "--interval", "1", "--every-poll"], text=True, **pipes) as process:  # type: ignore[call-overload]
            limit = threading.Timer(_LIMIT_S, process.kill)
            limit.start()
            try:
                assert process.stderr is not None
                found = re.search(r"(http://\S+)/metrics", process.stderr.readline())
                assert found
                address = found[1]

                def status(path: str, authorization: str = "") -> int:
                    try:
                        with urlopen(Request(address + path, headers={"Authorization": authorization})) as answer:
                            return int(answer.status)
                    except HTTPError as error:
                        return error.code

                yield process, status
            finally:
                limit.cancel()
                process.kill()


def test_sighup_reads_the_configuration_again_and_polls_go_on(
    watching: tuple[subprocess.Popen[str], Status], tmp_path: Path
) -> None:
    process, status = watching
    assert process.stdout is not None
    assert process.stderr is not None
    assert json.loads(process.stdout.readline())["poll"] == 1
    assert [status(path) for path in ("/metrics", "/-/ready", "/-/healthy")] == [200, 200, 200]

    hashed = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()
    (tmp_path / "web.yml").write_text(f"basic_auth_users: {{zoe: {hashed}}}")
    (tmp_path / "client.properties").write_text("client.id=after\n")
    process.send_signal(signal.SIGHUP)
    assert process.stderr.readline() == "note: reloaded\n"
    assert [status("/metrics"), status("/metrics", "Basic em9lOnNlY3JldA=="), status("/-/ready")] == [401, 200, 200]

    (tmp_path / "web.yml").write_text("basic_auth_user: {}")
    process.send_signal(signal.SIGHUP)
    text = process.stderr.readline()
    assert text.startswith(f"warning: not reloaded, the former settings stay: {tmp_path}/web.yml: ")
    assert status("/metrics") == 401

    (tmp_path / "web.yml").write_text("")
    (tmp_path / "client.properties").write_text("security.protocol=NONSENSE\n")
    process.send_signal(signal.SIGHUP)
    assert "NONSENSE" in process.stderr.readline()

    polls = [json.loads(process.stdout.readline()) for _ in range(3)]
    assert [poll["poll"] for poll in polls] == list(range(polls[0]["poll"], polls[0]["poll"] + 3))
    assert {poll["outcome"] for poll in polls} == {"complete"}
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 143


def test_sigterm_behind_sighup_ends_the_command() -> None:
    async def both(admin: Admin) -> None:
        os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(_LIMIT_S)

    with MockBroker() as broker, pytest.raises(typer.Exit) as end:
        Address(broker.address).run(both, reload=lambda: True)
    assert end.value.exit_code == 143
