"""The files of a replica, read in parts: in any order, in any process, their results as columns."""
