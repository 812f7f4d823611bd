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
# Whole lanes of tests/tiers.py. A worker that a hanging test ends cannot tell where it hangs: stacks come before.
IN_WORKERS = $(if $(filter-out 0,$(WORKERS)),-n $(WORKERS) --dist loadfile --no-loadscope-reorder --max-worker-restart 0 -o faulthandler_timeout=290)
WITH_JAVA = JAVA_HOME="$$(scripts/find-java)" && export JAVA_HOME &&
WITH_PEERS = JAVA_HOME="$$(scripts/find-java --peers)" && export JAVA_HOME &&

.PHONY: help install peers quickstart quick quick-tests test check wheel bench compat compat-broker compat-admin compat-commands compat-filters crash simulate simulate-cluster timers exactly-once failures hostile hostile-broker golden mutants house memory-proof clean

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

quick: $(INSTALLED) ## Tests that need no socket, process or JVM, with format, lint, types and imports: two minutes
	@$(MAKE) --no-print-directory --output-sync=target -j2 check quick-tests

quick-tests: $(INSTALLED)
	@ORBITMQ_TIER=quick $(BIN)/python -m pytest -q -m quick $(IN_WORKERS) $(ARGS)

test: $(INSTALLED) $(PEERS) ## Every feature once for real, Java peers and Spark included: twelve minutes on two cores; WORKERS=0: one at a time
	@$(WITH_PEERS) $(BIN)/python -m pytest $(IN_WORKERS) $(ARGS)

check: $(INSTALLED) ## Format, lint, types, imports; under a minute
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

wheel: $(INSTALLED) ## dist/orbitmq-*.whl
	@$(BIN)/python -m hatchling build -t wheel -d dist

bench: $(INSTALLED) $(PEERS) ## Ours and Java's in turn, with ratios
	@$(WITH_PEERS) $(BIN)/python -m benchmarks $(ARGS)

golden: $(INSTALLED) $(PEERS) ## Capture tests/golden anew from Java peers
	@$(WITH_PEERS) PYTHONPATH=tests $(BIN)/python -m golden.capture $(ARGS)

compat: $(INSTALLED) $(PEERS) ## 100,000 random requests to Java's NameServer and ours, answers compared
	@$(WITH_PEERS) PYTHONPATH=tests $(BIN)/python -m compat.differential $(ARGS)

compat-broker: $(INSTALLED) $(PEERS) ## 100,000 random commands to Java's broker and ours, answers compared
	@$(WITH_PEERS) PYTHONPATH=tests $(BIN)/python -m compat.broker $(ARGS)

compat-admin: $(INSTALLED) $(PEERS) ## 100,000 random administrative commands to Java's broker and ours, answers compared
	@$(WITH_PEERS) PYTHONPATH=tests $(BIN)/python -m compat.admin $(ARGS)

compat-commands: $(INSTALLED) $(PEERS) ## mqadmin's commands with Java's broker and ours, in all their forms, outputs compared
	@ORBITMQ_ALL_COMMANDS=1 $(WITH_PEERS) $(BIN)/python -m pytest -q tests/interop/test_group_commands.py tests/interop/test_mqadmin_side_by_side.py $(ARGS)

compat-filters: $(INSTALLED) $(PEERS) ## 100,000 random SQL92 expressions and messages through Java's filter and ours
	@$(WITH_PEERS) PYTHONPATH=tests $(BIN)/python -m compat.filters $(ARGS)

failures: $(INSTALLED) $(PEERS) ## Broken NameServers, brokers and cables: each figure and its bound; a quarter of an hour, as root
	@$(WITH_PEERS) PYTHONPATH=tests $(BIN)/python -m cluster $(ARGS)

hostile: $(INSTALLED) ## Every hostility figure in full: asked, measured, reached; 40 minutes on one core
	@PYTHONPATH=tests $(BIN)/python -m hostile.figures $(ARGS)

timers: $(INSTALLED) ## A million pending timers, 5,000 due a second: memory, start, lateness, kill -9; ten minutes
	@d=$$(mktemp -d) && PYTHONPATH=tests $(BIN)/python -m crash.million_timers --directory $$d --lead-s 200 $(ARGS); s=$$?; rm -rf $$d; exit $$s

exactly-once: $(INSTALLED) ## 2,000,000 rows of a Spark stream into a topic while its driver and workers are killed 40 times; half an hour
	@PYTHONPATH=tests:. $(BIN)/python -m spark.kills $(ARGS)

crash: $(INSTALLED) ## kill -9, power cuts, torn and damaged files, failing calls, a model: asked, measured, reached; half an hour
	@PYTHONPATH=tests $(BIN)/python -m crash.figures $(ARGS)

simulate: $(INSTALLED) ## Lives of Raft groups under faults, 2,000 seeds, minutes; ARGS="--seeds 10000", "--seed 7 --trace", "--mutants"
	@PYTHONPATH=tests $(BIN)/python -m raft $(ARGS)

simulate-cluster: $(INSTALLED) ## Lives of whole clusters under faults, 200 seeds, minutes; ARGS="--seeds 10000", "--seed 7 --trace", "--mutants"
	@PYTHONPATH=tests $(BIN)/python -m simulation $(ARGS)

hostile-broker: $(INSTALLED) ## An honest producer and consumer beside each hostile client of a broker; three minutes
	@PYTHONPATH=tests $(BIN)/python -m hostile.broker_figures $(ARGS)

mutants: $(INSTALLED) ## Break the source in 200 places, see what the unit tests notice; ARGS="net/pool.py --seed 7 --sample 50"
	@PYTHONPATH=tests $(BIN)/python -m mutants $(ARGS)

memory-proof: $(INSTALLED) ## A million requests to a NameServer with memories and to one without; ARGS="--requests 100000 --seeds 5"
	@PYTHONPATH=tests $(BIN)/python -m memory_proof $(ARGS)

house: $(INSTALLED) ## Circles, sizes of packages, comments, references, tests by name: counted
	@PYTHONPATH=tests $(BIN)/python -m house $(ARGS)

clean: ## Remove everything that make made
	rm -rf .venv dist out .cache tests/interop/java/target .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
