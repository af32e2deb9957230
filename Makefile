# make demo: set up, then show collapse and RDumb. make test: set up, then run all tests.
# make coverage: run all tests, or TESTS, and print the share of the package that they execute.
# make docs: set up, then write the site to build/site; a broken link or a warning is an error.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt
# Three on two cores: some tests wait for processes that they started.
SPREAD := -n 3 --dist loadfile --no-loadscope-reorder

.PHONY: demo test coverage docs clean

demo: .venv/installed
	$(BIN)/holdfast demo

test: .venv/installed-test
	$(BIN)/python -m pytest $(SPREAD)

coverage: .venv/installed-test
	$(BIN)/python -m pytest $(SPREAD) $(TESTS) --cov

docs: .venv/installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

.venv/installed: setup.cfg pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) --editable ".[html]"
	touch $@

.venv/installed-test: .venv/installed
	$(PIP) --editable ".[test]"
	touch $@

.venv/installed-docs: .venv/installed
	$(PIP) --editable ".[docs]"
	touch $@

clean:
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .coverage*
	find . -name __pycache__ -prune -exec rm -rf {} +
