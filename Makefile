# Every target sets up by itself what it needs; `make` alone lists them.
# A different interpreter: make setup PYTHON=/path/to/python3.12

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?=
ARGS ?=
SEED ?= 0
SEEDS ?= 2000
SECONDS_EACH ?= 300
SERVICE_HISTORIES ?= 12

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# The environment is remade when the lock, the project file or the place of the tree changes.
KEY := $(shell { pwd; cat requirements.lock pyproject.toml; } | cksum | tr ' ' '-')
READY := $(VENV)/.ready-$(KEY)

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(READY) ## Make .venv with everything, from hash-checked packages

$(READY):
	@set -- $(PYTHON); [ $$# -gt 0 ] || set -- python3.13 python3.12 python3.11 python3 python; \
	found=; \
	for candidate in "$$@"; do \
	  if "$$candidate" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' \
	    >/dev/null 2>&1; then found=$$candidate; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	  echo "No usable Python among: $$*" >&2; \
	  echo "lentic needs Python 3.11 or newer with its venv module." >&2; \
	  echo "Install it (Debian, Ubuntu: apt install python3 python3-venv), or name one:" >&2; \
	  echo "  make setup PYTHON=/path/to/python3.11" >&2; \
	  exit 1; \
	fi; \
	if ! { grep -qF "$(CURDIR)/$(VENV)" $(BIN)/activate && $(BIN)/python -c ''; } 2>/dev/null; then \
	  echo "Making $(VENV) with $$("$$found" --version)"; \
	  "$$found" -m venv --clear $(VENV); \
	fi
	@rm -f $(VENV)/.ready-*
	@echo "Installing the locked packages (about 1.5 GB; a minute or two the first time)"
	@PIP_USE_PEP517=1 $(PIP) install --quiet --require-hashes --requirement requirements.lock
	@$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

.PHONY: demo
demo: setup ## Write, compact and read a small table on Spark
	@$(BIN)/lentic demo $(ARGS)

.PHONY: check
check: setup ## Lint, format, types, floor plan, tidiness
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/test_tidy.py tests/test_checks_can_fail.py

.PHONY: test
test: setup ## The whole suite but what is marked slow
	$(BIN)/python -m pytest -m "not slow" $(ARGS)

.PHONY: sim
sim: setup ## Simulated crashes, failures and schedules, at length: SEED=0 SEEDS=2000
	LENTIC_SIM_SEED=$(SEED) LENTIC_SIM_SEEDS=$(SEEDS) $(BIN)/python -m pytest tests/simulation $(ARGS)

.PHONY: crowd
crowd: setup ## Many writers, compactors and a cleaner, simulated with faults: SEED=0 SEEDS=2000
	LENTIC_CROWD_SEED=$(SEED) LENTIC_CROWD_SEEDS=$(SEEDS) $(BIN)/python -m pytest -s tests/simulation/test_many_writers.py $(ARGS)

.PHONY: scenarios
scenarios: setup ## The scenarios of RFC-79, 2000 schedules with faults each: SEED=0 SEEDS=2000
	LENTIC_SCENARIO_SEED=$(SEED) LENTIC_SCENARIO_SEEDS=$(SEEDS) $(BIN)/python -m pytest tests/rfc/test_rfc79_scenarios.py $(ARGS)

.PHONY: services
services: setup ## All table services and two writers, simulated with faults: SEED=0 SEEDS=2000
	LENTIC_SERVICES_SEED=$(SEED) LENTIC_SERVICES_SEEDS=$(SEEDS) $(BIN)/python -m pytest -s tests/simulation/test_services_together.py $(ARGS)

.PHONY: cancels
cancels: setup ## Writers, clusterings and cancellers, simulated with faults: SEED=0 SEEDS=20000
	LENTIC_CANCELS_SEED=$(SEED) LENTIC_CANCELS_SEEDS=$(SEEDS) $(BIN)/python -m pytest -s tests/simulation/test_cancels.py $(ARGS)

.PHONY: runners
runners: setup ## Three runners and a writer on one table, simulated with faults: SEED=0 SEEDS=2000
	LENTIC_RUNNERS_SEED=$(SEED) LENTIC_RUNNERS_SEEDS=$(SEEDS) $(BIN)/python -m pytest -s tests/simulation/test_runners.py $(ARGS)

.PHONY: interop
interop: setup ## Apache Hudi and hudi-rs read our tables, and we read theirs
	LENTIC_INTEROP=require LENTIC_SERVICE_HISTORIES=$(SERVICE_HISTORIES) \
	  $(BIN)/python -m pytest tests/interop $(ARGS)

.PHONY: properties
properties: setup ## Property tests at length: 20,000 examples each
	LENTIC_EXAMPLES=20000 $(BIN)/python -m pytest tests/properties $(ARGS)

.PHONY: fuzz
fuzz: setup ## Damaged files at full length
	LENTIC_FUZZ=full $(BIN)/python -m pytest tests/fuzz $(ARGS)

.PHONY: faults
faults: setup ## Executors killed and frozen, tasks run twice, statuses lost, on a Spark cluster
	LENTIC_FAULTS=full $(BIN)/python -m pytest tests/faults $(ARGS)

.PHONY: soak
soak: setup ## Writers, compaction and readers on one table, frozen and killed: SECONDS_EACH=300
	LENTIC_SOAK_S=$(SECONDS_EACH) LENTIC_SOAK_SEED=$(SEED) \
	  $(BIN)/python -m pytest -m soak tests/writers $(ARGS)

.PHONY: cancel-soak
cancel-soak: setup ## Ingestion beside a clustering of its file groups, with Apache Hudi: SECONDS_EACH=300
	LENTIC_INTEROP=require LENTIC_CANCEL_SOAK_S=$(SECONDS_EACH) \
	  $(BIN)/python -m pytest -m soak tests/writers/test_cancelled_clustering.py $(ARGS)

.PHONY: serve-soak
serve-soak: setup ## Servers on tables under ingestion, one killed every 20 s: SECONDS_EACH=300
	LENTIC_SERVE_S=$(SECONDS_EACH) LENTIC_SERVE_SEED=$(SEED) \
	  $(BIN)/python -m pytest -s tests/serve $(ARGS)

.PHONY: bench
bench: setup ## Reads against Spark's and Arrow's own readers, as ratios
	$(BIN)/python -m bench.reads $(ARGS)

.PHONY: bench-writes
bench-writes: setup ## Writes: time, memory, bytes; beside peers with ARGS="--peers iceberg,deltalake"
	$(BIN)/python -m bench.writes $(ARGS)

.PHONY: bench-writers
bench-writers: setup ## Two writers on one table at once, against one that does both batches
	$(BIN)/python -m bench.writers $(ARGS)

.PHONY: bench-planning
bench-planning: setup ## Plans after a commit to 3 partitions, of 1,000 to 640,000: do they cost the same?
	$(BIN)/python -m bench.planning_services $(ARGS)

.PHONY: bench-long
bench-long: setup ## 1,000 small commits with inline services: is the last as fast as the first?
	$(BIN)/python -m bench.long $(ARGS)

.PHONY: format
format: setup ## Format, and mend what ruff can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: docs
docs: setup ## Write docs/configuration.md and docs/rfc-coverage.md anew
	@mkdir -p docs
	$(BIN)/python -m lentic.config.docs > docs/configuration.md.new
	mv docs/configuration.md.new docs/configuration.md
	$(BIN)/python -m tests.rfc.coverage > docs/rfc-coverage.md.new
	mv docs/rfc-coverage.md.new docs/rfc-coverage.md

.PHONY: lock
lock: setup ## Write requirements.lock anew; make lock ARGS=--upgrade for newer versions
	$(BIN)/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras \
	  --no-emit-index-url --no-emit-trusted-host --no-emit-find-links \
	  --extra=spark --extra=zookeeper --extra=dev --output-file=requirements.lock $(ARGS) pyproject.toml

.PHONY: clean
clean: ## Remove the environment, caches and build output
	rm -rf $(VENV) build dist lentic-demo .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
