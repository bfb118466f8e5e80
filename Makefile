# Everything a checkout needs is Python 3.11 to 3.13 and make. `make` alone lists the targets.

# The interpreter the environment is made from: the one named by PYTHON=..., else the first of these that fits.
PYTHON ?= python3
CANDIDATES = "$(PYTHON)" $(if $(filter file,$(origin PYTHON)),python3.13 python3.12 python3.11)
# Below 3.14, because the pinned TensorFlow has no wheels for it.
FITS = import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))

BIN = .venv/bin
# -qq: errors only. The constraints hold for what builds the package as well, in older and newer releases of pip.
PIP_INSTALL = PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt \
	$(BIN)/python -m pip install -qq --disable-pip-version-check

# Files in the order they are found: many short ones come last then, where most tests first would leave the few files
# that take minutes for the end, when one core idles.
PYTEST = $(BIN)/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-long lint types bench docs docs-figures clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

setup: .venv/.dev ## make .venv with everything that development needs
	@echo "Ready: $(BIN)/penstock, $(BIN)/python"

demo: .venv/.demo ## from flights in Spark to a trained model that scores them, on this machine
	@$(BIN)/penstock demo

test: lint types ## lint, check types, run all tests
	$(PYTEST)

test-long: lint types ## the same with what takes long, and drivers killed 50 times
	PENSTOCK_LONG=1 $(PYTEST)

lint: .venv/.dev ## check style and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/.dev ## check types
	$(BIN)/mypy

bench: .venv/.dev ## measure the transfer from Spark to tensors
	$(BIN)/python benchmarks/transfer.py

docs: .venv/.dev ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "Open site/index.html; its search needs a server: $(BIN)/python -m http.server --directory site"

docs-figures: .venv/.dev ## measure the figures of docs/boundaries.md again, in minutes
	$(BIN)/python benchmarks/boundaries_page.py

clean: ## remove the environment, caches and build output
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist site spark-warehouse
	find src tests benchmarks docs -type d -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

# One environment, installed in two sizes: the demo does without TensorFlow, JAX and the test tools.
.venv/.demo: EXTRAS = spark,torch,demo,report
.venv/.dev: EXTRAS = dev
.venv/.demo .venv/.dev: pyproject.toml constraints.txt | .venv/bin/python
	@echo "Installing penstock[$(EXTRAS)] into .venv (minutes the first time)"
	@$(PIP_INSTALL) --editable '.[$(EXTRAS)]'
	@touch $@

.venv/bin/python:
	@for python in $(CANDIDATES); do \
		if "$$python" -c '$(FITS)' >/dev/null 2>&1; then \
			echo "Making .venv with $$("$$python" --version)"; \
			exec "$$python" -m venv .venv; \
		fi; \
	done; \
	echo 'Penstock needs Python 3.11, 3.12 or 3.13, and found none as:' $(CANDIDATES) >&2; \
	echo "Install one, or name it: make $(or $(MAKECMDGOALS),setup) PYTHON=/path/to/python3.12" >&2; \
	exit 1
