"""The `kafkawire` command, also of `python -m kafkawire`. Without the extra `cli` it prints one line that names the
extra."""

from __future__ import annotations

import sys

from kafkawire.errors import MissingExtraError


def main() -> int:
    """Runs the command line and returns the exit code: 1 where the `cli` extra is not installed."""
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ImportError:
        print(f"error: {MissingExtraError('the kafkawire command', 'cli')}", file=sys.stderr)
        return 1
    from kafkawire.cli import main

    return main()


if __name__ == "__main__":
    code = main()
    # CPython notes a KeyboardInterrupt in `exec` of a text, as in dataclasses that are imported, and then ends
    # `python -m` by SIGINT, though it was caught. The next `exec` clears the note (run_eval_code_obj).
    exec("")
    sys.exit(code)
