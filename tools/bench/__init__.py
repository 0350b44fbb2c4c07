"""Benchmarks: kafkawire side by side with its peers, on the same bytes in one process run."""
