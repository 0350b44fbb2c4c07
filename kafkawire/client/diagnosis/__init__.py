"""Readings of a cluster, and the verdicts that follow from them. Nothing here changes a cluster."""
