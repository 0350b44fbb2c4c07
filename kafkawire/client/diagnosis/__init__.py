"""Readings of a cluster, and the verdicts that they prove. Nothing here changes a cluster."""
