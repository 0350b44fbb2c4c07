"""Faults of one field each in sound log directories: does the audit name every one, and by one rule?

`python -m tools.audit_faults` (`make audit-faults`) writes the numbers into docs/audit.md.
"""
