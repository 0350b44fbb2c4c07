"""Log directories that exercise the replay of producer state, written by real brokers, and what consumers got of them.

`python -m tools.replay` writes tests/transactions/data anew; the tests do `workload` with a running broker, too.
"""
