"""The parts of the data sources: options, readers of tasks, positions of streams."""
