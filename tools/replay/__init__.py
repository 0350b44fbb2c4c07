"""Log directories that exercise the replay of producer state, written by real brokers, and what consumers got of them.

`python -m tools.replay` writes tests/transactions/data anew; `zoo` is also what the tests do with a running broker.
"""
