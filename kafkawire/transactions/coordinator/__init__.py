"""`__transaction_state`: its records, the transitions of transactional ids, what coordinators decided."""
