"""The catalogue of all messages of all releases: their families, unions and earlier names, and the checks over all of
them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kafkawire.codegen import shape
from kafkawire.codegen.importing import annotate, decisions, merge
from kafkawire.codegen.importing.facts import Schema
from kafkawire.codegen.importing.sources import Release
from kafkawire.codegen.load import RawSchema
from kafkawire.codegen.model import MessageModel as Model
from kafkawire.codegen.resolve import resolve
from kafkawire.codegen.versions import VersionRange


class CatalogueMessage(NamedTuple):
    """A union schema and the family (the folder) it belongs to."""

    family: str
    schema: Schema


class LayoutConflict(NamedTuple):
    """A version that `release` lays out otherwise than the newer one whose layout was taken."""

    message: str
    version: int
    release: str

    def __str__(self) -> str:
        return f"{self.message} {self.version} of {self.release}"


class Catalogue(NamedTuple):
    """The result of an import: messages by name; undecided conflicts; messages that no release has a layout of."""

    messages: dict[str, CatalogueMessage]
    models: list[Model]
    undecided: list[LayoutConflict]
    left_out: list[str]


def build(newest_first: Sequence[Release]) -> Catalogue:
    """Every message of the releases under its name of today.

    A name belongs to the family of the newest release that has it. `undecided` are the conflicts that
    `decisions.CONFLICTS` does not list. Raises SchemaError for what the compiler refuses (an api key that is given
    twice, a name that differs in its case only), ValueError where no schema can express the releases' layouts.
    """
    renamed = [_under_new_names(release) for release in newest_first]
    united = merge.releases([_schemas(release) for release in renamed])
    left_out = sorted(name for name, schema in united.items() if schema["validVersions"] == "none")
    families = {name: family for release in reversed(renamed) for name, (family, _) in release.messages.items()}
    messages = {
        name: CatalogueMessage(families[name], _with_earlier_names(name, schema))
        for name, schema in sorted(united.items())
        if name not in left_out
    }
    models = resolve(RawSchema(f"{family}/{name}.json", family, schema) for name, (family, schema) in messages.items())
    by_name = {model.name: model for model in models}
    undecided = [
        LayoutConflict(name, version, release.label)
        for release in renamed
        for name, version in _conflicts(by_name, release)
        if (name, version) not in decisions.CONFLICTS
    ]
    return Catalogue(messages, models, undecided, left_out)


def count_versions(messages: Mapping[str, CatalogueMessage]) -> int:
    """How many (message, version)s there are."""
    return sum(len(list(VersionRange.parse(message.schema["validVersions"]))) for message in messages.values())


def _with_earlier_names(name: str, schema: Schema) -> Schema:
    return annotate.aliased(
        schema, decisions.RENAMED_MESSAGES.get(name, []), decisions.RENAMED_FIELDS.get(name, {}), everywhere=False
    )


def _under_new_names(release: Release) -> Release:
    out: dict[str, tuple[str, Schema]] = {}
    for name, (family, schema) in release.messages.items():
        name = decisions.new_name(name)
        if name in out:
            raise ValueError(f"{release.label} has {name} under two names")
        out[name] = (family, schema | {"name": name})
    return Release(release.label, out)


def _conflicts(united: Mapping[str, Model], release: Release) -> list[tuple[str, int]]:
    raws = (RawSchema(f"{name} of {release.label}", "", schema) for name, (_, schema) in release.messages.items())
    olds = [model for raw in raws for model in resolve([raw], drafts=True)]
    return [(old.name, version) for old in olds for version in shape.conflicts(united[old.name], old)]


def _schemas(release: Release) -> dict[str, Schema]:
    return {name: schema for name, (_, schema) in release.messages.items()}
