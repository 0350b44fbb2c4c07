"""The answer of `kafkawire why`: what blocks a group, a partition or an id, as values and as text."""
