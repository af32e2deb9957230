# make demo: set up, then show collapse and RDumb. make test: set up, then run all tests.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt

.PHONY: demo test clean

demo: .venv/installed
	$(BIN)/holdfast demo

test: .venv/installed-test
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

.venv/installed: setup.cfg pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) --editable ".[html]"
	touch $@

.venv/installed-test: .venv/installed
	$(PIP) --editable ".[test]"
	touch $@

clean:
	rm -rf .venv build dist *.egg-info
