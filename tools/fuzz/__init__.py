"""Fuzzing: coverage-guided inputs (libFuzzer, through atheris) for the comparisons that the test suite makes.

- `inputs`: a fuzzer's bytes <-> a line of text that says what they are: what the corpus and findings are kept as
- `targets`: what is compared, and the starting corpus of each
- `sanitizer`: a native engine compiled with AddressSanitizer and coverage
- `harness`: one run of libFuzzer in a process of its own
- `__main__`: `python -m tools.fuzz`, all targets for a given time, and a summary

`corpus/TARGET.txt` holds the inputs that runs start from, and every finding since; the test suite replays them all.
"""
