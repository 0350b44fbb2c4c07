"""Small log directories of brokers of several releases, for tests: `python -m tools.logdirs`."""
