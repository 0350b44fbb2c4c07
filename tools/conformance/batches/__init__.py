"""The inside of record batches, read by Kafka's Java and by us."""
