"""A cluster around the logs: the metadata log, the clocks and the configurations of its brokers."""
