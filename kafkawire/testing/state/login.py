"""`Login`: how far the client of one connection has logged in; `Logins` takes the steps."""

from __future__ import annotations

from typing import Any


class Login:
    """How far the client of a connection has logged in.

    Attributes:
        user: the name, once it has; a token has the name "token".
        failed: the connection ends after the answer.
    """

    def __init__(self) -> None:
        self.user: str | None = None
        self.failed = False
        self.mechanism: str | None = None
        self.scram: Any = None
        self.name = ""
