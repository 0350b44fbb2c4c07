"""Is it Kafka, byte for byte? Compares the codecs with Kafka's own classes: `python -m tools.conformance`."""
