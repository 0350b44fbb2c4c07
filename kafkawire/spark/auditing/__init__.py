"""The audit as a Spark job, and its tables; the witness and the comparison of copies as jobs."""
