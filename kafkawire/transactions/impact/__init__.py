"""What open transactions hold back, and what an abort of each would hide."""
