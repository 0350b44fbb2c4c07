"""The commands that answers print, stated once: with the address of the cluster, and with the options that a verdict
depended on."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import msgspec


class Reach(msgspec.Struct, frozen=True):
    """How a cluster is reached, and how its transactions were judged. `address`: HOST:PORT, and the options of every
    command after `--bootstrap-server`. `options`: what else verdicts depend on, for commands that judge."""

    address: str = "HOST:PORT"
    options: tuple[str, ...] = ()

    def judging(self, command: str, *arguments: str) -> str:
        """A command that judges transactions: `kafkawire COMMAND --bootstrap-server ... OPTIONS ARGUMENTS`."""
        return " ".join((f"kafkawire {command} --bootstrap-server {self.address}", *self.options, *arguments))

    def reading(self, command: str, *arguments: str) -> str:
        """A command that judges nothing."""
        return " ".join((f"kafkawire {command} --bootstrap-server {self.address}", *arguments))

    def abort(self, topic: str, partition: int, start_offset: int) -> str:
        """`txn abort` of the transaction that begins at an offset."""
        return self.judging("txn abort", *at(topic, partition), f"--start-offset {start_offset}")

    def force_terminate(self, ids: Sequence[str]) -> str:
        """`txn force-terminate` of some ids."""
        return self.judging("txn force-terminate", *(f"--transactional-id {quoted(one)}" for one in ids))

    def describe(self, transactional_id: str) -> str:
        """`txn describe` of an id."""
        return self.reading("txn describe", f"--transactional-id {quoted(transactional_id)}")

    def find_hanging(self, topic: str, partition: int) -> str:
        """`txn find-hanging` in a partition."""
        return self.judging("txn find-hanging", *at(topic, partition))


def quoted(word: str) -> str:
    """A word of a command as a shell takes it, in characters that a terminal shows as they are: what is not printable
    is escaped as bash, ksh and zsh read it (`$'...'`), so that the command runs as it is printed. With a NUL no shell
    can: escaped it would end the word, and the command would be about another name."""
    if word.isprintable() or "\0" in word:
        return shlex.quote(word)
    return f"$'{''.join(_escaped(one) for one in word)}'"


def _escaped(character: str) -> str:
    if character.isprintable() and character not in "'\\":
        return character
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))


def at(topic: str, partition: int) -> tuple[str, str]:
    """The arguments that name a partition."""
    return f"--topic {quoted(topic)}", f"--partition {partition}"
