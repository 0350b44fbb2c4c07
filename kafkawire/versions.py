"""Which versions of each message a release of Kafka speaks, and which of them two sides share.

The table has one release of each minor version from 2.4 on. It is `schemas/release_versions.json`, made from the
releases' jars.

    >>> from kafkawire import versions
    >>> versions.of("2.8")[1]  # Fetch
    range(0, 13)
    >>> versions.shared(versions.of("2.8"), versions.of("4.4"))[1]
    12
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafkawire.messages import ApiVersionsResponse

_FILE = Path(__file__).parent / "schemas" / "release_versions.json"


def releases() -> tuple[str, ...]:
    """The releases of the table, oldest first: `2.4.1`, ..., `4.4.0`."""
    return tuple(_table()["releases"])


def of(release: str, *, unstable: bool = False) -> dict[int, range]:
    """Api key -> the versions of the request, and of its response, that a release speaks.

    Args:
        release: `2.8` or `2.8.2`. Patch releases speak the versions of their minor release.
        unstable: with the versions that a broker offers only if `unstable.api.versions.enable` is true.

    Raises:
        ValueError: the release is not in the table.
    """
    from kafkawire.messages import REGISTRY

    of_messages = of_messages_in(release, unstable=unstable)
    keys = {entry.name: entry.api_key for entry in REGISTRY if entry.kind == "request"}
    found = ((keys.get(name), versions) for name, versions in of_messages.items())
    return dict(sorted((key, versions) for key, versions in found if key is not None))


def of_messages_in(release: str, *, unstable: bool = False) -> dict[str, range]:
    """Name of a message of `kafka-clients` -> its versions in a release; arguments and errors are those of `of`."""
    at = _index(release)
    order = {label: index for index, label in enumerate(releases())}
    out = {}
    for name, history in _table()["messages"].items():
        entries = [entry for entry in history if order[entry[0]] <= at]
        if entries and (versions := _range(entries[-1][1 if unstable else -1])):
            out[name] = versions
    return out


def releases_with(message: str, version: int) -> tuple[str, ...]:
    """The releases of the table, oldest first, that have a version of a message; none for an unknown message."""
    return tuple(
        release for release in releases() if version in of_messages_in(release, unstable=True).get(message, ())
    )


def shared(ours: Mapping[int, range], theirs: Mapping[int, range]) -> dict[int, int]:
    """Api key -> the highest version that both sides speak; keys without one are missing.

    Args:
        ours, theirs: as `of` and `from_response` return them.
    """
    return {
        key: highest for key in ours if (highest := highest_shared(ours[key], theirs.get(key, range(0)))) is not None
    }


def highest_shared(ours: range, theirs: range) -> int | None:
    """The highest version in both ranges; None where there is none."""
    low, high = max(ours.start, theirs.start), min(ours.stop, theirs.stop) - 1
    return high if low <= high and ours and theirs else None


def to_response(table: Mapping[int, range], *, throttle_time_ms: int = 0) -> ApiVersionsResponse:
    """The ApiVersionsResponse of a broker that speaks the versions in `table`: api key -> versions."""
    from kafkawire.messages import ApiVersionsResponse
    from kafkawire.messages.api_versions_response import ApiVersion

    return ApiVersionsResponse(
        api_keys=tuple(
            ApiVersion(api_key=key, min_version=versions.start, max_version=versions.stop - 1)
            for key, versions in sorted(table.items())
            if versions
        ),
        throttle_time_ms=throttle_time_ms,
    )


def from_response(response: ApiVersionsResponse) -> dict[int, range]:
    """Api key -> the versions that a broker's ApiVersionsResponse offers; of a key given twice, the last ones."""
    return {entry.api_key: range(entry.min_version, entry.max_version + 1) for entry in response.api_keys}


def _index(release: str) -> int:
    known = releases()
    minor = release.split(".")[:2]
    for index, label in enumerate(known):
        if label.split(".")[:2] == minor:
            return index
    raise ValueError(f"no versions are known of release {release!r}; of {', '.join(known)} they are")


def _range(text: str) -> range:
    low, _, high = text.partition("-")
    return range(0) if text == "none" else range(int(low), int(high or low) + 1)


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(_FILE.read_text("utf-8"))
    return table
