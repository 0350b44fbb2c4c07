"""Kafka's schema files, of any release -> one schema a message in this project's form.

`sources` reads jars and folders, `facts` turns text into schemas, `merge` makes one schema of several releases,
`decisions` holds what no rule can find out, `annotate` adds earlier names and sentences, `catalogue` does all of this
for all messages and proves (with `codegen.shape`) that the result still describes each release's bytes, `render` writes
the text of a file. Only `sources` opens files.
"""
