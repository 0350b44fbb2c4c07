"""Recordings of real Kafka clusters: log directories and what clients read from them, one archive a cluster.

`archive` packs and unpacks them. The archives are in `tests/recordings`; its README says what each holds.
"""
