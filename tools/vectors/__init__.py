"""The vector suite: what Kafka's own classes write, and how they take bytes, for any implementation (README.md)."""
