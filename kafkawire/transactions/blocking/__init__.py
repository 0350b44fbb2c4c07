"""What blocks a group, a partition or an id (`kafkawire why`), as values and as text."""
