"""`--frames-out`: writes each frame of a capture to a file of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kafkawire.cli.output_file import check_output, open_output

if TYPE_CHECKING:
    from kafkawire.capture import CapturedExchange


_WITHHELD = b"This frame may hold secrets: --show-secrets writes it.\n"


class FrameFiles:
    """Writes frames, without size prefixes, as `000001-Produce-v12.req.bin` and `.resp.bin`, numbered like the rows.

    Args:
        folder: where the files are written; created if needed.
        captures: the files that are read. None of them is replaced.
        show_secrets: write frames that may contain secrets. Otherwise a file `.withheld` with a sentence is written
            instead.
    """

    def __init__(self, folder: str, captures: Sequence[str], *, show_secrets: bool) -> None:
        self._captures = captures
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._show_secrets = show_secrets
        self._number = 0

    def write(self, matched: CapturedExchange) -> None:
        """Writes the frames of one exchange."""
        from kafkawire.capture.message_json import frame_may_contain_secrets

        self._number += 1
        row = matched.row
        name = f"{self._number:06}-{row.api or 'unknown'}" + ("" if row.version is None else f"-v{row.version}")
        for ending, kind, frame in (
            ("req", "request", matched.request_frame),
            ("resp", "response", matched.response_frame),
        ):
            if frame is None:
                continue
            if not self._show_secrets and frame_may_contain_secrets(row.api_key, kind, frame):
                self._save(f"{name}.{ending}.withheld", _WITHHELD)
            else:
                self._save(f"{name}.{ending}.bin", frame)

    def _save(self, name: str, content: bytes) -> None:
        path = str(self._folder / name)
        check_output(path, self._captures, "--frames-out")
        with open_output(path) as file:
            file.write(content)
