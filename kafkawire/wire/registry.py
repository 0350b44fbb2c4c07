"""Registries: sets of messages, which are found by name or api key and imported on first use."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkawire._interface import INTERFACE
from kafkawire.errors import GeneratedCodeError

if TYPE_CHECKING:
    from kafkawire.wire.message import Message


class Entry(NamedTuple):
    """One message. `flexible` is its first flexible version, -1 where none is; `aliases` are older names."""

    name: str
    module: str
    kind: str
    family: str
    api_key: int | None
    low: int
    high: int
    flexible: int
    aliases: tuple[str, ...] = ()

    @property
    def valid_versions(self) -> range:
        return range(self.low, self.high + 1)


class Registry:
    """A set of messages. It never changes after it was made.

    Args:
        package: the package of generated modules that the entries are in; "" for layers, which have none.
        entries: the messages.
        classes: name -> class, of messages that are not imported from the package.
    """

    def __init__(
        self, package: str, entries: tuple[Entry, ...], classes: Mapping[str, type[Message]] | None = None
    ) -> None:
        self.package = package
        self.entries = {entry.name: entry for entry in entries}
        self._classes = dict(classes or {})
        self._loaded: dict[str, type[Message]] = {}
        self._aliases = {alias: entry for entry in entries for alias in entry.aliases}
        self._by_key: dict[tuple[int, str, str], Entry] = {
            (entry.api_key, entry.kind, entry.family): entry for entry in entries if entry.api_key is not None
        }
        #: entry -> the layer that its message comes from
        self._owners: dict[Entry, Registry] = {}
        self._rpc: dict[tuple[int, str], type[Message] | None] = {}

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries.values())

    def __len__(self) -> int:
        return len(self.entries)

    def over(self, below: Registry) -> Registry:
        """A registry with the messages of both. Where both have a name, an alias or an api key, this one's counts.

        Args:
            below: the registry that this one is laid on.

        Returns:
            A new registry; neither of the two changes.
        """
        both = Registry("", ())
        both.entries = below.entries | self.entries
        both._aliases = {old: entry for old, entry in below._aliases.items() if old not in self.entries} | self._aliases
        # A message of this one replaces the one below of its name, whatever api key that had; but not drafts, which
        # have a family of their own.
        kept = {
            key: entry
            for key, entry in below._by_key.items()
            if (mine := self.entries.get(entry.name)) is None or mine.family != entry.family
        }
        both._by_key = kept | self._by_key
        both._owners = dict.fromkeys((*below, *kept.values()), below) | dict.fromkeys(
            (*self, *self._by_key.values()), self
        )
        return both

    def entry(self, name: str) -> Entry:
        """The message of that name, or that had it once; LookupError names the nearest where there is none."""
        entry = self.entries.get(name) or self._aliases.get(name)
        if entry is None:
            from difflib import get_close_matches

            near = get_close_matches(name, [*self.entries, *self._aliases], n=3)
            raise LookupError(f"no message is named {name!r}" + (f"; near: {', '.join(near)}" if near else ""))
        return entry

    def find(self, api_key: int, kind: str | None = None, family: str | None = None) -> Entry:
        """The message of an api key.

        Args:
            api_key: of the message.
            kind: `request`, `response`, `coordinator-key`, ...; None: any.
            family: namespace of the api key, for example `rpc`; None: any.

        Raises:
            LookupError: no message has it, or several do (api keys repeat over families).
        """
        if kind is not None and family is not None:
            entry = self._by_key.get((api_key, kind, family))
            found = [entry] if entry else []
        else:
            found = [
                entry
                for (key, its_kind, its_family), entry in self._by_key.items()
                if key == api_key and kind in (None, its_kind) and family in (None, its_family)
            ]
        if len(found) == 1:
            return found[0]
        what = f"api key {api_key}" + (f", kind {kind}" if kind else "") + (f", family {family}" if family else "")
        if not found:
            raise LookupError(f"no message has {what}")
        names = ", ".join(f"{entry.name} ({entry.family})" for entry in found)
        raise LookupError(f"{what} is ambiguous: {names}; give kind and family")

    def load(self, entry: Entry) -> type[Message]:
        """The message's class; imports its module on first use."""
        owner = self._owners.get(entry)
        if owner is not None:
            return owner.load(entry)
        found = self._classes.get(entry.name) or self._loaded.get(entry.name)
        if found is not None:
            return found
        try:
            module = import_module(f"{self.package}.{entry.module}")
        except ImportError as error:
            # Before there was `kafkawire.runtime`, generated modules imported names of these modules.
            if error.name and error.name.startswith("kafkawire.wire."):
                raise GeneratedCodeError(self.package, "0.1.0", (0, 0), INTERFACE) from error
            raise
        cls: type[Message] = getattr(module, entry.name)
        self._loaded[entry.name] = cls
        return cls

    def requests(self) -> dict[int, Entry]:
        """Api key -> the request that comes in frames with this key."""
        found = self._by_key.items()
        return {key: entry for (key, kind, family), entry in found if (kind, family) == ("request", "rpc")}

    def rpc(self, api_key: int, kind: str) -> type[Message] | None:
        """The class of an api key's request or response (`kind`); None for an unknown api key."""
        key = api_key, kind
        if key not in self._rpc:
            entry = self._by_key.get((api_key, kind, "rpc"))
            if entry is None:
                return None  # not kept: any number may come
            self._rpc[key] = self.load(entry)
        return self._rpc[key]

    def attribute(self, name: str) -> Any:
        """What a package's `__getattr__` returns: a message's class, kept in the package for the next time."""
        entry = self.entries.get(name)
        if entry is None:
            raise AttributeError(f"module {self.package!r} has no attribute {name!r}")
        cls = self.load(entry)
        setattr(sys.modules[self.package], name, cls)
        return cls
