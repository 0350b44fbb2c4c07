"""Fuzzing: coverage-guided inputs (libFuzzer, through atheris) for every parser of the package.

- `targets`: the table of targets, one module for each package, with the property that is checked for every input
- `target`: a row of this table
- `inputs`: a fuzzer's bytes <-> structured inputs <-> lines of text
- `seed_vectors`: seeds from bytes that Kafka wrote
- `input_files`: inputs written as files, for parsers that take a path
- `harness`: one run of libFuzzer, in a process of its own
- `libfuzzer_runs`: successive runs of a target, until its time is over
- `sanitizer`: a native engine compiled with AddressSanitizer and coverage
- `fuzz_outcomes`: outcomes of runs, and the table in SECURITY.md
- `__main__`: `python -m tools.fuzz`, all targets for a given time, and a summary

`corpus/TARGET.txt` contains every input that ever failed. The test suite replays them. Every run makes its own seeds.
"""
