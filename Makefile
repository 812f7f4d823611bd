# Every target does its own set-up: a fresh machine needs Python 3.11 or newer and make, nothing else.
# PYTHON=/path/to/python chooses the interpreter that the virtual environment is made with.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

BIN := .venv/bin
INSTALLED := .venv/.complete
PEERS := tests/interop/java/target/.complete
PEER_SOURCES := tests/interop/java/pom.xml $(shell find tests/interop/java/src -name '*.java' 2>/dev/null)
WORKERS := auto
# Each worker has its own part of the files: tests/tiers.py. A worker that a hanging test ends cannot tell where it hangs: stacks come before.
IN_WORKERS = $(if $(filter-out 0,$(WORKERS)),-n $(WORKERS) --dist each --max-worker-restart 0 -o faulthandler_timeout=290)
WITH_JAVA = JAVA_HOME="$$(scripts/find-java)" && export JAVA_HOME &&
WITHOUT_PEERS = no Java peers: the tests that need them are skipped, and named on the last lines (with CI=true they fail)
WITH_PEERS = JAVA_HOME="$$(scripts/find-java --peers)" && export JAVA_HOME &&

.PHONY: help install peers quickstart quick quick-tests test interop check docs wheel release bench golden proof house clean

help: ## Say what can be made
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 20

install: $(INSTALLED) ## .venv with everything; leaves .venv/bin/orbitmq
	@echo "installed: .venv/bin/orbitmq"

$(INSTALLED): pyproject.toml constraints.txt scripts/make-venv scripts/find-python
	@PYTHON="$(PYTHON)" scripts/make-venv

peers: $(PEERS) ## The Java RocketMQ 5.3.3 that the tests talk with

$(PEERS): $(PEER_SOURCES) scripts/make-peers
	@scripts/make-peers

quickstart: $(INSTALLED) ## 336,776 flights through NameServer, broker and Spark
	@$(WITH_JAVA) $(BIN)/python -m examples.quickstart $(ARGS)

quick: $(INSTALLED) ## Tests that need no socket, process or JVM, with format, lint, types, imports: 150 s of processor time
	@$(MAKE) --no-print-directory --output-sync=target -j2 check quick-tests

quick-tests: $(INSTALLED)
	@ORBITMQ_TIER=quick $(BIN)/python -m pytest -q -m quick -o timeout=60 $(IN_WORKERS) $(ARGS)

test: $(INSTALLED) ## Every feature once for real: some 11 minutes on two cores; WORKERS=0: one at a time
	@scripts/make-peers || { export ORBITMQ_PEERS=missing; echo "$(WITHOUT_PEERS)" >&2; }; \
	export JAVA_HOME="$$(scripts/find-java 2>/dev/null)"; \
	ORBITMQ_TIER=test $(BIN)/python -m pytest $(IN_WORKERS) $(ARGS)

interop: $(INSTALLED) $(PEERS) ## Java's RocketMQ on the other end, Spark sessions, long pages: some 13 minutes on two cores
	@$(WITH_PEERS) ORBITMQ_TIER=interop $(BIN)/python -m pytest -m 'interop and not proof' $(IN_WORKERS) $(ARGS)

check: $(INSTALLED) ## Format, lint, types, imports; under a minute
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

docs: $(INSTALLED) ## out/site: the pages, and the Python API out of the docstrings; a broken link fails
	@$(BIN)/python scripts/make_docs.py

release: $(INSTALLED) ## dist/: wheel, source archive, orbitmq.pyz, bill of materials, checksums; one minute
	@$(BIN)/python scripts/make_release.py $(ARGS)

wheel: $(INSTALLED) ## dist/orbitmq-*.whl
	@$(BIN)/python -m hatchling build -t wheel -d dist

bench: $(INSTALLED) $(PEERS) ## Ours and Java's in turn, with ratios
	@$(WITH_PEERS) $(BIN)/python -m benchmarks $(ARGS)

golden: $(INSTALLED) $(PEERS) ## Capture tests/golden again from Java peers
	@$(WITH_PEERS) PYTHONPATH=tests $(BIN)/python -m golden.capture $(ARGS)

proof: $(INSTALLED) $(PEERS) ## Everything long, hours: asked, measured, reached; ARGS="--list", "--changed", "--only store", "--resume"
	@$(WITH_PEERS) PYTHONPATH=tests:. $(BIN)/python -m proof $(ARGS)

house: $(INSTALLED) ## Circles, sizes of packages, comments, references, tests by name: counted
	@PYTHONPATH=tests $(BIN)/python -m house $(ARGS)

clean: ## Remove everything that make made
	rm -rf .venv dist out .cache tests/interop/java/target .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
