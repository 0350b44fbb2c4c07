"""How Spark starts, on which Java, with this package on its workers; named jobs, and the size of tasks."""
