"""The distributions: an sdist, and a manylinux wheel with the native engine for every CPython that is found.

- `interpreters`: which CPythons are on this machine
- `building`: sources -> sdist -> wheel -> wheel that runs on other Linux machines (auditwheel)
- `smoke`: what an installed wheel must do; runs in a clean environment, where this package is not
- `__main__`: `python -m tools.wheels`, all of it
"""
