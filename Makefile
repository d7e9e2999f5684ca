# make alone prints what there is. Every target sets up .venv from requirements.lock by itself.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 2
SECONDS ?= 60

.DEFAULT_GOAL := help
.PHONY: help demo run test format check unit bench conformance fuzz lock clean

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/.ready: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Tiercel needs Python 3.11 or later; $(PYTHON) is older. Say: make PYTHON=python3.11"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

demo: $(VENV)/.ready ## show the main job end to end
	@$(BIN)/tiercel decode --verify tests/vectors/mqqb/frame7_user_message.bin

test: check unit ## formatting, lint, strict types, import direction and all tests

check: $(VENV)/.ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: $(VENV)/.ready
	$(BIN)/pytest --numprocesses $(JOBS) --quiet

format: $(VENV)/.ready ## format the code and mend what ruff can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.ready ## measure the codec and print a table
	@$(BIN)/python bench/codec.py

conformance: $(VENV)/.ready ## run the suite and print which requirements it covers
	@mkdir -p build
	$(BIN)/pytest --numprocesses $(JOBS) --quiet --junitxml build/conformance.xml
	@$(BIN)/python tools/conformance build/conformance.xml

fuzz: $(VENV)/.ready ## fuzz each parser for SECONDS (60)
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements-fuzz.lock
	@for target in $$($(BIN)/python tests/fuzz/targets.py --list); do $(BIN)/python tests/fuzz/targets.py $$target -max_total_time=$(SECONDS) || exit 1; done

lock: $(VENV)/.ready ## make the lock files anew (names, versions and hashes only)
	$(BIN)/pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --no-annotate --output-file requirements.lock requirements.in

clean: ## remove .venv and everything built
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
