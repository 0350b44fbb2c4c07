"""True histories of a small cluster, copies of its directories made at any moments, and the audit's answers to these.

A history is run to its end, so that the fate of each transaction is known; then its files are copied as an operator
copies them, in one moment or file by file, whole or harmed. The audit is compared with the truth (`properties`).
"""
