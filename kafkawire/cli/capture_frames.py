"""`--frames-out`: each frame of a capture in a file of its own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkawire.capture import Matched


_WITHHELD = "This frame may hold secrets: --show-secrets writes it.\n"


class FrameFiles:
    """Writes frames as `000001-Produce-v12.req.bin` and `.resp.bin`, numbered as the rows are, without their size.

    For a frame that may hold secrets there is a file `.withheld` that says so, unless these are to be shown.
    """

    def __init__(self, folder: str, *, show_secrets: bool) -> None:
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._show_secrets = show_secrets
        self._number = 0

    def write(self, matched: Matched) -> None:
        """The frames of one exchange."""
        from kafkawire.capture.bodies import frame_may_hold_secrets

        self._number += 1
        row = matched.row
        name = f"{self._number:06}-{row.api or 'unknown'}" + ("" if row.version is None else f"-v{row.version}")
        for ending, kind, frame in (
            ("req", "Request", matched.request_frame),
            ("resp", "Response", matched.response_frame),
        ):
            if frame is None:
                continue
            if not self._show_secrets and frame_may_hold_secrets(row.api, kind):
                (self._folder / f"{name}.{ending}.withheld").write_text(_WITHHELD)
            else:
                (self._folder / f"{name}.{ending}.bin").write_bytes(frame)
