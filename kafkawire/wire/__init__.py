"""The engine of all codecs: bytes to values and back. No module here depends on a particular message.

- `layout`: op tables, one version of one struct as data; `spec`: a schema as data.
- `read`, `write`, `strides`: the functions that generated codecs call; `interpreter`: executes layouts, and
  describes errors.
- `message`: the base classes `Struct` and `Message`, and `Codec`; `generated`: the engine that runs generated codecs;
  `registry`: a namespace of messages.
- `json_form`: Kafka's JSON form; `json_text`: that form as text, written directly from bytes.
- `columns`: many values of one message at once -> Arrow.
- `values`: value types that all of them use; `backend`: the choice of the engine.
"""
