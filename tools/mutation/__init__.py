"""Mutation testing: which changes of one operator or number in a source file its tests do not notice."""
