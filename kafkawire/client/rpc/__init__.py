"""Single requests, each as a function of a cluster."""
