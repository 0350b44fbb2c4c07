"""True histories of a small cluster, copies of its directories made at any moments, and what the audit says of these.

A history is run once, so that the fate of each transaction is known; then its files are copied as an operator would copy
them, in one moment or file by file, whole or harmed. The audit of the copy is compared with the truth (`properties`).
"""
