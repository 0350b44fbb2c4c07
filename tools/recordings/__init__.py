"""Recordings of real Kafka clusters: log directories, captures, and what clients and brokers said of them.

`python -m tools.recordings` makes them anew: `examples/`, which people browse, and an archive a cluster in
`tests/recordings`, whose README says what each holds. `archive` packs and unpacks. `raw_client` sends single requests,
`clients` are applications; recipes say what is done to a cluster.
"""
