"""`Oracle`: the Java process of one release."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from itertools import islice
from pathlib import Path
from typing import Any

from tools.broker.errors import BrokerUnavailableError
from tools.broker.jars import java
from tools.oracle.build import OracleUnavailableError, class_path

_OPTIONS = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
_BATCH = 200

Answer = dict[str, Any]


class Oracle(AbstractContextManager["Oracle"]):
    """Sends questions to the classes of a release; a context manager. README.md lists the questions."""

    def __init__(self, release: str, extra: list[Path] | None = None) -> None:
        self.release = release
        self.asked = 0
        try:
            command = [java(), *_OPTIONS, "-cp", ":".join(map(str, class_path(release, extra))), "oracle.Oracle"]
        except BrokerUnavailableError as error:
            raise OracleUnavailableError(str(error)) from error
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8", errors="surrogatepass"
        )

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()

    def one(self, **question: Any) -> Answer:
        """One question, one answer."""
        return next(self.ask([question]))

    def ask(self, questions: Iterable[dict[str, Any]]) -> Iterator[Answer]:
        """The answers in the order of the questions, which are sent in batches."""
        rest = iter(questions)
        while batch := list(islice(rest, _BATCH)):
            yield from self._batch(batch)

    def _batch(self, batch: list[dict[str, Any]]) -> list[Answer]:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        text = "".join(json.dumps(question) + "\n" for question in batch)
        # Both pipes may fill up: a thread writes while we read.
        writer = threading.Thread(target=self._send, args=(text,))
        writer.start()
        lines = list(islice(process.stdout, len(batch)))
        writer.join()
        if len(lines) < len(batch):
            raise OracleUnavailableError(f"the oracle of {self.release} ended, code {process.wait()}")
        self.asked += len(batch)
        return [json.loads(line) for line in lines]

    def _send(self, text: str) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        try:
            stdin.write(text)
            stdin.flush()
        except BrokenPipeError:
            pass  # the reader sees that too few answers come
