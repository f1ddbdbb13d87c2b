# Everything runs in .venv, which the first target makes. `make help` lists the targets.

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check
# What is installed when .venv is made: groups of pyproject.toml, and a file of versions, as constraints/spark-4.1.txt.
WITH ?= dev docs bench
CONSTRAINTS ?=
JAVA := $(if $(JAVA_HOME),$(JAVA_HOME)/bin/java,java)

PYTEST = $(BIN)/pytest --numprocesses 2 --dist loadfile
FAST = src tests/unit tests/expressions tests/languages tests/golden tests/references \
  $(addprefix tests/conformance/test_,staircase.py ties.py minimal.py)
TESTS ?=

.DEFAULT_GOAL := help
.PHONY: help setup java kafka-jars demo check test coverage torture lint format bench docs api types package clean

help:  ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST)

setup: $(STAMP)  ## make .venv and install everything into it

# Again whenever the dependencies may have changed. An existing .venv keeps its Python.
$(STAMP): pyproject.toml
	@python=$(BIN)/python; test -x $$python || python=$(PYTHON); \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "Skyband needs Python 3.11 or newer, but $$python is" \
	    "$$($$python --version 2>/dev/null | grep -o '[0-9].*' || echo missing): name another with 'make setup PYTHON=python3.12', after removing .venv if there is one." >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(PIP) 'pip>=25.1'  # the first that knows dependency groups; a new .venv has that of its Python
	$(PIP) $(if $(CONSTRAINTS),--constraint $(CONSTRAINTS)) --editable '.[all]' $(addprefix --group ,$(WITH))
	@touch $@

java:
	@version=$$($(JAVA) -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1); \
	test "$${version:-0}" -ge 17 || { \
	  echo "Spark needs Java 17 or newer, and there is none: install it with" \
	    "'apt-get install openjdk-17-jre-headless' (Debian, Ubuntu) or 'brew install openjdk@17' (macOS)." >&2; exit 1; }

# Without them the tests that need Kafka are skipped.
kafka-jars: $(STAMP)
	@$(BIN)/python scripts/kafka-jars || echo "Tests that need Kafka will be skipped." >&2

demo: $(STAMP) java  ## watch leaderboards over a made-up market
	@$(BIN)/skyband demo

check: lint  ## lint, types and the fast tests: no Spark, no browser, a few minutes
	$(PYTEST) -m 'not spark' $(FAST)

test: $(STAMP) java lint kafka-jars  ## lint, types and all tests
	$(PYTEST)

coverage: $(STAMP) java kafka-jars  ## which lines and branches the tests reach; some: make coverage TESTS=tests/unit
	$(PYTEST) --cov --cov-report term-missing:skip-covered --cov-report html $(TESTS)

torture: $(STAMP) java  ## play ten thousand histories, kill streams 200 times, and compare what they leave
	$(BIN)/python -m tests.simulation --seeds 10000
	$(BIN)/python -m tests.spark.torture --kills 200

lint: $(STAMP)  ## style, types and the direction of imports
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP)  ## lay the code out, mend what can be mended, draw the map in CONTRIBUTING.md and the front page
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	$(BIN)/python -m tests.docs.house
	$(BIN)/python -m tests.docs.front

bench: $(STAMP)  ## measure the core (others: python -m benchmarks NAME)
	$(BIN)/python -m benchmarks core

docs: $(STAMP)  ## build the documentation into site/
	$(BIN)/mkdocs build --strict

# A tag is the API that users have. Before the first one there is nothing to compare with.
api: $(STAMP)  ## breaking changes of the API since the last tag
	@tag=$$(git describe --tags --abbrev=0 2>/dev/null); \
	if [ -n "$$tag" ]; then $(BIN)/griffe check skyband --search src --against "$$tag" --verbose; \
	else echo "There is no tag yet, so there is no published API to compare with."; fi

types: $(STAMP)  ## whether the names on the page API have types, by pyright
	$(BIN)/python scripts/check-types

package: $(STAMP)  ## build wheel and sdist, and ask each a query from a clean environment
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python scripts/smoke dist/*.whl
	$(BIN)/python scripts/smoke dist/*.tar.gz

clean:  ## remove what is made, but for .venv
	rm -rf site dist build .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis .coverage htmlcov
	find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +
