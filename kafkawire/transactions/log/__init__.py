"""A partition's log, batch by batch: the state of its producers, the rules of batches, what transactions ended."""
