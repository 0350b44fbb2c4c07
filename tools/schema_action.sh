#!/usr/bin/env bash
# The step of action.yml: checks the schemas in $SCHEMAS. $PACKAGE: a generated package; $BASE: a git revision; $FORMAT: true.
set -euo pipefail
kafkawire schema check --schemas "$SCHEMAS" ${PACKAGE:+--output "$PACKAGE"}
if [ "$FORMAT" = true ]; then
    kafkawire schema fmt --check "$SCHEMAS"
fi
if [ -n "$BASE" ]; then
    before=$(mktemp -d)
    trap 'rm -rf "$before"' EXIT
    git archive "$BASE" -- "$SCHEMAS" | tar -x -C "$before"
    kafkawire schema diff "$before/$SCHEMAS" "$SCHEMAS" --incompatible
fi
