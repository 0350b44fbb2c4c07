"""The search for hanging transactions at an interval: changes from poll to poll, and metrics."""
