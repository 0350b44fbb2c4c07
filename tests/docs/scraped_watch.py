"""A real Prometheus that scrapes `txn watch` and evaluates the rules of docs/deploy."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

from tools.polling import until

_RULES = Path(__file__).parents[2] / "docs" / "deploy" / "prometheus-rules.yml"

Ask = Callable[..., Any]


@contextmanager
def scraped_watch(bootstrap: str, folder: Path, *more: str) -> Iterator[Ask]:
    """A `txn watch` over a cluster, and a Prometheus that scrapes it each second and evaluates docs/deploy's rules.

    Yields: a function that asks Prometheus: a path below /api/v1, parameters -> `data` of the answer.

    Args:
        bootstrap: HOST:PORT of a broker. `folder`: for the configuration and data of Prometheus.
        more: options of the watch.

    Raises:
        FileNotFoundError: Prometheus is not installed.
    """
    prometheus = shutil.which("prometheus")
    if prometheus is None:
        raise FileNotFoundError("prometheus is not installed")
    with ExitStack() as stack:
        options = ["--bootstrap-server", bootstrap, "--listen", "0", "--interval", "1", "--confirm-after", "0.1"]
        command = [sys.executable, "-m", "kafkawire", "txn", "watch", *options, *more]
        watch = stack.enter_context(_process(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True))
        line = watch.stderr.readline() if watch.stderr else ""
        found = re.search(r"http://(\S+)/metrics", line)
        if not found:
            raise RuntimeError(f"txn watch serves no metrics: {line}")
        job = {"job_name": "kafkawire", "static_configs": [{"targets": [found[1]]}]}
        settings = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        config = {"global": settings, "rule_files": [str(_RULES)], "scrape_configs": [job]}
        (folder / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML
        with socket.create_server(("127.0.0.1", 0)) as free:
            address = f"127.0.0.1:{free.getsockname()[1]}"
        files = [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
        command = [prometheus, *files, f"--web.listen-address={address}", "--log.level=error"]
        stack.enter_context(_process(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

        def ask(path: str, **parameters: object) -> Any:
            with urlopen(f"http://{address}/api/v1/{path}?{urlencode(parameters)}", timeout=20) as answer:
                return json.load(answer)["data"]

        def scraped() -> bool:
            try:
                return bool(ask("query", query="kafkawire_poll_success")["result"])
            except OSError:
                return False

        until(scraped, "a scrape by Prometheus", seconds=60)
        yield ask


@contextmanager
def _process(command: list[str], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    started = subprocess.Popen(command, stdin=subprocess.DEVNULL, **options)
    try:
        yield started
    finally:
        started.kill()
        started.communicate()
