"""Compares the codecs with Kafka's own classes, byte for byte: `python -m tools.conformance`."""
