"""Fuzzing: coverage-guided inputs (libFuzzer, through atheris) for every parser of the package.

- `targets`: the table of what is fuzzed, and what must hold of every input; a module a room
- `target`: a row of it
- `inputs`: a fuzzer's bytes <-> what they say, and <-> the line of text that says it
- `vectors`, `scratch`: bytes that Kafka wrote, as seeds; inputs as files
- `harness`: one run of libFuzzer in a process of its own
- `running`: runs of a target, until its time is over
- `sanitizer`: a native engine compiled with AddressSanitizer and coverage
- `figures`: what runs came to, and the table in SECURITY.md
- `__main__`: `python -m tools.fuzz`, all targets for a given time, and a summary

`corpus/TARGET.txt` holds every input that ever failed; the test suite replays them all. Seeds are made anew for each
run.
"""
