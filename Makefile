# Everything runs in .venv, which the first target makes. `make help` lists the targets.

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
JAVA := $(if $(JAVA_HOME),$(JAVA_HOME)/bin/java,java)

.DEFAULT_GOAL := help
.PHONY: help setup java kafka-jars demo test torture lint format bench docs clean

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
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[all]'
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

test: $(STAMP) java lint kafka-jars  ## lint, types and all tests
	$(BIN)/pytest --numprocesses 2 --dist loadfile

torture: $(STAMP) java  ## play ten thousand histories, kill streams 200 times, and compare what they leave
	$(BIN)/python -m tests.simulation --seeds 10000
	$(BIN)/python -m tests.spark.torture --kills 200

lint: $(STAMP)  ## style, types and the direction of imports
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP)  ## lay the code out, mend what can be mended, draw the map in CONTRIBUTING.md
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	$(BIN)/python -m tests.docs.house

bench: $(STAMP)  ## measure the core (others: python -m benchmarks NAME)
	$(BIN)/python -m benchmarks core

docs: $(STAMP)  ## build the documentation into site/
	$(BIN)/mkdocs build --strict

clean:  ## remove what is made, but for .venv
	rm -rf site dist build .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +
