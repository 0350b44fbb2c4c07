"""The impact of open transactions: the records that they hold back, and those that an abort of each would hide."""
