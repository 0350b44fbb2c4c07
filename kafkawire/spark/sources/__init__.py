"""What the data sources are made of: options, readers of tasks, positions of streams."""
