"""Recordings of real Kafka clusters: log directories, captures, and the answers of clients and brokers about them.

`python -m tools.recordings` makes them anew: `examples/`, which people browse, and an archive a cluster in
`tests/recordings`, whose README describes each. `archive` packs and unpacks. `raw_client` sends single requests,
`clients` are applications; recipes list what is done to a cluster.
"""

from __future__ import annotations


class RecordingError(Exception):
    """Something is missing, Kafka answered other than the recipe expects, or a recording is too large."""
