"""What is fuzzed: each target compares engines, with the checks of the test suite, and raises AssertionError.

Nothing else may come out of a check: no other exception, no crash, no hang, no memory out of proportion (libFuzzer
watches time and memory).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.fuzz import inputs

CORPUS = Path(__file__).parent / "corpus"
_TESTS = Path(__file__).parents[2] / "tests"
for _folder in (_TESTS, _TESTS / "wire", _TESTS / "records"):
    if str(_folder) not in sys.path:
        sys.path.append(str(_folder))


@dataclass(frozen=True)
class Target:
    """`check` runs one input; `text` and `data` turn a fuzzer's bytes into a line of the corpus and back."""

    name: str
    about: str
    check: Callable[[bytes], None]
    text: Callable[[bytes], str]
    data: Callable[[str], bytes]

    @property
    def path(self) -> Path:
        return CORPUS / f"{self.name}.txt"

    def corpus(self) -> list[str]:
        """The lines of the committed corpus; those behind a `#` are comments."""
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        return [line for line in lines if line and not line.startswith("#")]

    def write(self, lines: Iterable[str]) -> None:
        """Writes the committed corpus anew."""
        self.path.write_text("".join(f"{line}\n" for line in sorted(set(lines))))


# Codecs --------------------------------------------------------------------------------------------------------------


def check_codec(data: bytes) -> None:
    """Generated functions, native engine and interpreter: same verdict, value, end, error, and bytes written again."""
    from engines import agree

    name, version, body = inputs.split(data)
    agree(inputs.message_of(name), version, body)


def _codec_text(data: bytes) -> str:
    name, version, body = inputs.split(data)
    return f"{name} {version} {body.hex()}"


def _codec_data(line: str) -> bytes:
    name, version, *body = line.split(" ")
    return inputs.head_of(name, int(version)) + bytes.fromhex("".join(body))


# Columns -------------------------------------------------------------------------------------------------------------


def check_columns(data: bytes) -> None:
    """Rows and errors of all engines of columns are those of `decode`."""
    from column_engines import check

    name, version, body = inputs.split(data)
    check(inputs.message_of(name), inputs.pieces_of(body), version)


def _columns_text(data: bytes) -> str:
    name, version, body = inputs.split(data)
    return f"{name} {version} {' '.join(piece.hex() for piece in inputs.pieces_of(body))}"


def _columns_data(line: str) -> bytes:
    name, version, *pieces = line.split(" ")
    return inputs.head_of(name, int(version)) + inputs.joined([bytes.fromhex(piece) for piece in pieces])


# Records -------------------------------------------------------------------------------------------------------------

_MAX_BYTES = 1 << 20


def check_records(data: bytes) -> None:
    """Record columns of all engines are what `records.read` gives as objects; checksums count in one run of two."""
    from tests.records.test_record_columns import agree

    agree(data, check_crc=False, max_batch_bytes=_MAX_BYTES)
    agree(data, max_batch_bytes=_MAX_BYTES)


# --------------------------------------------------------------------------------------------------------------------

TARGETS = {
    target.name: target
    for target in (
        Target("codecs", check_codec.__doc__ or "", check_codec, _codec_text, _codec_data),
        Target("columns", check_columns.__doc__ or "", check_columns, _columns_text, _columns_data),
        Target("records", check_records.__doc__ or "", check_records, bytes.hex, bytes.fromhex),
    )
}


def replay(target: Target, lines: list[str]) -> Iterator[tuple[str, Exception]]:
    """The lines that fail, with what they raise."""
    for line in lines:
        try:
            target.check(target.data(line))
        except Exception as error:
            yield line, error
