"""The native engine (`native/`), where a Rust compiler was at install time. `kafkawire.wire.backend` knows whether."""

from typing import Any, final

from kafkawire.wire.layout import Table
from kafkawire.wire.message import Input, Struct

__version__: str

@final
class Codec:
    """Executes the layouts of one message (an `Engine` of `kafkawire.wire.message`)."""

    def __init__(self, table: Table, classes: tuple[type[Struct], ...]) -> None: ...
    def decode(self, data: Input, version: int, offset: int, strict: bool, copy: bool, /) -> tuple[Any, int] | None: ...
    def encode(self, value: Any, version: int, /) -> bytes | None: ...
