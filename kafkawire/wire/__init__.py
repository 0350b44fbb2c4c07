"""Bytes <-> values: what every message's codec is made of. No module here knows a message's name.

- `layout`: op tables, one version of one struct as data; `spec`: a schema as data.
- `read`, `write`, `strides`: the functions that generated codecs call; `interpreter`: executes layouts, and
  describes errors.
- `message`: the base classes `Struct` and `Message`, and `Codec`; `generated`: the engine that runs generated codecs;
  `registry`: a namespace of messages.
- `json_form`: Kafka's JSON form; `json_text`: the same as text, straight from bytes.
- `columns`: many values of one message at once -> Arrow.
- `values`: what they all share; `backend`: which engine runs.
"""
