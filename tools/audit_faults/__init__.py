"""Faults of one field each in sound log directories, and a test that the audit names each of them by one rule.

`python -m tools.audit_faults` (`make audit-faults`) writes the numbers into docs/audit.md.
"""
