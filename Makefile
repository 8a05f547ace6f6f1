# The commands for newcomers and CI. Each target sets up what it needs in .venv; a second run finds it there.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMPS := .stamps
# Options of pip install, such as another index.
PIP_FLAGS ?=
# The tests that compile no kernel and start no process.
QUICK := $(wildcard tests/language tests/check tests/derive tests/emit tests/oracle)

.PHONY: help demo test test-quick coverage test-hard bench peers wheel docs generate check lint clean

help:
	@echo 'make demo        generate, build, upsample a photograph, execute a oneDNN graph dump'
	@echo 'make test        run every test'
	@echo 'make test-hard   hostile conditions at full length: sanitizers, broken caches, threads, garbage; long'
	@echo 'make test-quick  the tests that compile nothing, in less than a minute'
	@echo 'make coverage    run every test and show the lines of the generator that none reaches'
	@echo 'make bench       time our kernels against PyTorch and oneDNN: a sample, about ten minutes; FULL=1: all, hours'
	@echo 'make peers       install the peers of some tests: PyTorch, oneDNN (2 GB), onnx, dask, mkdocs'
	@echo 'make wheel       a wheel of the generated package that needs no compiler, in dist/; hours on one core, OPS=Convolution: minutes'
	@echo 'make docs        the site, in site/: guides, tutorials, reference with formulas, tables, results'
	@echo 'make generate    write generated/ from spec/ and templates/'
	@echo 'make check       fail if generated/ is out of date'
	@echo 'make lint        ruff, its formatter, and mypy --strict'
	@echo 'make clean       delete .venv, caches and pictures'

demo: $(STAMPS)/demo
	$(BIN)/opwright demo

test: $(STAMPS)/test
	$(BIN)/python -m pytest -n auto --dist worksteal $(PYTEST_FLAGS)

test-hard: $(STAMPS)/test
	OPWRIGHT_SWEEP=full $(BIN)/python -m pytest -n auto --dist worksteal -m hard $(PYTEST_FLAGS)

test-quick: $(STAMPS)/test
	$(BIN)/python -m pytest -n auto --dist worksteal -q $(QUICK) $(PYTEST_FLAGS)

coverage: $(STAMPS)/test
	$(BIN)/python -m pytest -n auto --dist worksteal --cov --cov-report=term-missing:skip-covered $(PYTEST_FLAGS)

bench: $(STAMPS)/bench
	$(BIN)/opwright bench $(if $(FULL),--full) $(BENCH_FLAGS)

peers: $(STAMPS)/peers

wheel: $(STAMPS)/wheel
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/opwright wheel $(OPS) $(WHEEL_FLAGS)

docs: $(STAMPS)/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet $(DOCS_FLAGS)

generate: $(STAMPS)/demo
	$(BIN)/opwright generate

check: $(STAMPS)/demo
	$(BIN)/opwright generate --check

lint: $(STAMPS)/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf $(VENV) $(STAMPS) demo-output .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.10 or newer is needed, not " + sys.version.split()[0]) if sys.version_info < (3, 10) else None'
	$(PYTHON) -m venv $(VENV)

$(STAMPS)/demo: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(PIP_FLAGS) -e '.[demo]'
	@mkdir -p $(STAMPS)
	@touch $@

$(STAMPS)/test: $(STAMPS)/demo
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(PIP_FLAGS) -e '.[demo,test]'
	@touch $@

$(STAMPS)/peers: $(STAMPS)/demo
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(PIP_FLAGS) -e '.[demo,test,peers,onnx,dask,docs]'
	@touch $@

$(STAMPS)/wheel: $(STAMPS)/demo
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(PIP_FLAGS) -e '.[wheel]'
	@touch $@

$(STAMPS)/docs: $(STAMPS)/demo
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(PIP_FLAGS) -e '.[docs]'
	@touch $@

$(STAMPS)/bench: $(STAMPS)/demo
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(PIP_FLAGS) -e '.[bench,peers]'
	@touch $@
