"""The audit of a cluster's replicas: from their parts to findings and answers."""
