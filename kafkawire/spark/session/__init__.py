"""Spark sessions: their start, the Java that they run on, and this package on their workers; named jobs, and the size
of tasks."""
