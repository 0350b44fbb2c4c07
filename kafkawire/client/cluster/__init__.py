"""The brokers of a cluster: which of them to ask, until when, and how often."""
