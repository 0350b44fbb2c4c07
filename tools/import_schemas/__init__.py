"""Import Kafka's message schemas from its Maven jars into `schemas/kafka/`, one union schema a message.

What an import is, is in `codegen/importing/`; here is what only this repository needs: `schema_jars` fetches the
releases with Maven, `about` adds our own sentences, `enums` asks Kafka's Java for error codes and api keys.
"""
