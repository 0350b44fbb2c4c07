# `make demo` and `make test` set up everything they need, in .venv below this folder.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test check generate bench conformance examples clean

demo: $(VENV)/.demo
	@$(BIN)/python -m tools.demo

test: $(VENV)/.dev
	$(BIN)/pytest -n 2 -q

# Everything but the tests: format, lint, types, imports, and generated code that is what the schemas give.
check: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m kafkawire.codegen --check

generate: $(VENV)/.dev
	$(BIN)/python -m kafkawire.codegen

# Speed and memory side by side with Kafka's Java, kio and kafka-python (Java 17, Maven; who is missing is left out);
# writes docs/performance.md. Takes half an hour, and 2.5 GB of temporary files.
bench: $(VENV)/.dev
	$(BIN)/python -m tools.bench --write --large

# Every message, version and release against Kafka's own classes (Java 17, Maven); writes docs/conformance.md.
conformance: $(VENV)/.dev
	$(BIN)/python -m tools.conformance

# The captures and log directories in examples/, made again with a real broker (Java 17, Maven, tcpdump).
examples: $(VENV)/.dev
	$(BIN)/python -m tools.examples

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --upgrade pip

$(VENV)/.demo: $(VENV)/bin/python pyproject.toml
	$(BIN)/pip install -q -e ".[spark]"
	@touch $@

$(VENV)/.dev: $(VENV)/bin/python pyproject.toml
	$(BIN)/pip install -q -e ".[all,dev]"
	@touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache demo
