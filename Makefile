# make train        set up .venv, train, evaluate      make train ARGS="model=gpt pos=alibi"
# make test         set up .venv, run the tests        make test-full for the long ones
PYTHON ?= python3
BIN := .venv/bin
ARGS ?=

# Threads that wait should sleep (pytest loads torch without our command line, which sets this itself).
export GOMP_SPINCOUNT ?= 0

.PHONY: train test test-full lint format clean

train: .venv/ready
	$(BIN)/python train.py $(ARGS)

test: .venv/ready-test
	$(BIN)/python -m pytest $(ARGS)

test-full: .venv/ready-test
	$(BIN)/python -m pytest -m "full or not full" $(ARGS)

lint: .venv/ready-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: .venv/ready-test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv build src/*.egg-info .pytest_cache .mypy_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Set-up runs again when pyproject.toml changes, and only then.
.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 14))' \
		|| { echo "poslab needs Python 3.10 to 3.13; choose one with: make PYTHON=python3.12 ..."; exit 1; }
	@$(PYTHON) -m venv .venv \
		|| { rm -rf .venv; echo "python's venv module is missing (Debian: apt-get install python3-venv)"; exit 1; }

.venv/ready: pyproject.toml | .venv/bin/python
	@echo "Installing poslab into .venv: PyTorch is large, this takes some minutes, once."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

.venv/ready-test: pyproject.toml | .venv/bin/python
	@echo "Installing poslab and its test tools into .venv: this takes some minutes, once."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	@touch $@ .venv/ready
