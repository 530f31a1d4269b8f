# Needs Python >= 3.11 and make, and nothing set up beforehand.
#   make demo    train the digits example
#   make test    lint, types, tests, doctests
PYTHON ?= python3
VENV ?= .venv

BIN := $(VENV)/bin

.PHONY: demo test lint types pytest bench format clean

demo: $(VENV)/.demo
	$(BIN)/python examples/train_digits.py

test: lint types pytest

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy --strict

pytest: $(VENV)/.dev
	$(BIN)/python -m pytest

bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find asyncgrad devices tests examples benchmarks -name __pycache__ -prune -exec rm -rf {} +

# Each stamp is one level of set-up, made anew when pyproject.toml changes.
$(VENV)/.demo: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "asyncgrad needs Python 3.11 or newer: make PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1' # the first that knows --group
	$(BIN)/python -m pip install --quiet --editable '.[demo]'
	touch $@

$(VENV)/.dev: $(VENV)/.demo
	$(BIN)/python -m pip install --quiet --group dev
	touch $@

$(VENV)/.bench: $(VENV)/.demo
	$(BIN)/python -m pip install --quiet --editable '.[bench]'
	touch $@
