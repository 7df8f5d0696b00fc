# Safelight: `make serve` runs it, `make test` tests it. Both set themselves up in .venv.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help serve test check format bench docs clean

help: ## Show this list
	@awk -F':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

serve: $(VENV)/.runtime ## Run Safelight on http://127.0.0.1:8000
	@$(BIN)/safelight serve

test: $(VENV)/.dev ## Run every test, browser included
	@$(BIN)/python tests/browser/chromium.py
	$(BIN)/python -m pytest -n $${PYTEST_WORKERS:-3} --dist worksteal -q

check: $(VENV)/.dev ## Lint, format, types, import rules, fresh generated docs, guards that are missed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python docs/generate.py --check
	$(BIN)/python tools/unguard.py

format: $(VENV)/.dev ## Format and sort imports
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.dev ## Write the generated pages anew
	$(BIN)/python docs/generate.py

bench: $(VENV)/.dev ## Measure, and write docs/performance.md
	$(BIN)/python -m bench

clean: ## Remove the virtual environment and caches (never data)
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Safelight needs Python 3.11 or newer; set PYTHON=/path/to/python3.")'
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.runtime: $(VENV)/.created pyproject.toml constraints.txt
	@echo "Installing Safelight into $(VENV) …"
	@$(PIP) install --quiet --constraint constraints.txt --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime
	@echo "Installing what the tests need …"
	@$(PIP) install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@
