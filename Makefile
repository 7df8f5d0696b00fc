# Safelight: `make serve` runs it, `make test` tests it. Both set themselves up in .venv.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check

LOCK   := $(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --quiet

# Tests that read the source only: no database, no process.
GATES  := tests/test_architecture.py tests/test_cells.py tests/test_failpoints.py tests/test_ownership.py tests/test_unions.py

# What is compiled is kept, whatever the surroundings say: the tests start hundreds of processes.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help serve test again shots ha check format bench docs lock clean

help: ## Show this list
	@awk -F':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

serve: $(VENV)/.runtime ## Run Safelight on http://127.0.0.1:8000
	@$(BIN)/safelight serve

test: $(VENV)/.dev ## Run every test, browser included
	@$(BIN)/python tests/programs.py chromium pgbouncer
	$(BIN)/python -m pytest -n $${PYTEST_WORKERS:-4} --dist worksteal -q

again: $(VENV)/.dev ## Run the tests that failed once more, one at a time
	$(BIN)/python -m pytest --last-failed --last-failed-no-failures none -p no:xdist -q

shots: $(VENV)/.dev ## Photograph every page into shots/ (SHOTS="--only library --judge")
	@$(BIN)/python tests/programs.py chromium
	@$(BIN)/python tools/shots.py $(SHOTS)

ha: $(VENV)/.dev ## Kill machines under load for ten minutes (HA="--minutes 3 --faults 6 --seed 2")
	@$(BIN)/python tests/programs.py etcd
	$(BIN)/python -m tests.ha $(HA)

check: $(VENV)/.dev ## Lint, types, import rules, gates and whether they can fail, fresh docs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy
	$(BIN)/python -m pytest -q --durations=0 -p no:xdist $(GATES)
	$(BIN)/python tools/unguard.py
	$(BIN)/python docs/generate.py --check

format: $(VENV)/.dev ## Format and sort imports
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.dev ## Write the generated pages anew
	$(BIN)/python docs/generate.py

bench: $(VENV)/.bench ## Measure, and write docs/performance.md (PARTS="pipeline growth": only those)
	$(BIN)/python -m bench $(PARTS)

lock: $(VENV)/.dev ## Pin what is installed anew, with hashes (after a change of pyproject.toml)
	$(LOCK) --extra build --output-file requirements/runtime.txt
	$(LOCK) --extra build --extra dev --constraint requirements/runtime.txt --output-file requirements/dev.txt
	$(LOCK) --extra bench --constraint requirements/dev.txt --output-file requirements/bench.txt

clean: ## Remove the virtual environment and caches (never data)
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Safelight needs Python 3.11 or newer; set PYTHON=/path/to/python3.")'
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.runtime: $(VENV)/.created pyproject.toml requirements/runtime.txt
	@echo "Installing Safelight into $(VENV) …"
	@$(PIP) install --quiet --require-hashes --requirement requirements/runtime.txt
	@$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime requirements/dev.txt
	@echo "Installing what the tests need …"
	@$(PIP) install --quiet --require-hashes --requirement requirements/dev.txt
	@touch $@

# Without it the bench still runs; it says what it could not compare with, and why.
$(VENV)/.bench: $(VENV)/.dev requirements/bench.txt
	@echo "Installing what the bench compares with …"
	@$(PIP) install --quiet --require-hashes --requirement requirements/bench.txt && touch $@ || echo "Not installed; the bench goes on without."
