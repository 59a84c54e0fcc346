# The front door. Bare `make` prints what there is; the comment above a target is its help text.
# A machine needs Python 3.11 or later and make; everything else goes into .venv.

.DEFAULT_GOAL := help
.PHONY: help setup demo serve test test-again test-fast test-faults test-api test-kafka test-browser test-wheels mutants check format bench \
	figures docs site lock clean

VENV := .venv
BIN := $(VENV)/bin
API := .venv-api
SITE := .venv-site
STAMP := $(VENV)/.installed
# One process more than there are cores: tests that drive Spark, a server or a child process wait for it half of the time.
WORKERS ?= $(shell expr $$(nproc 2>/dev/null || sysctl -n hw.ncpu) + 1)
# Tests start Python hundreds of times: half of `import muntin` is compiling its modules where bytecode is not kept.
unexport PYTHONDONTWRITEBYTECODE
IS_NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for p in python3.11 python3 python; do \
	$$p -c '$(IS_NEW_ENOUGH)' 2>/dev/null && echo $$p && break; done)

# Print this list
help:
	@awk '/^# /{text = substr($$0, 3); next} \
	      /^[a-z-]+:/{if (text) {sub(/:.*/, ""); printf "  make %-13s %s\n", $$0, text}} {text = ""}' Makefile

# Make .venv with the locked packages and muntin itself (again only if the lock or pyproject changed)
setup: $(STAMP)

# Show queries sharing state on a small generated stream
demo: $(STAMP)
	$(BIN)/muntin demo

# Serve the demo's stream at 127.0.0.1:8088, and say where to look (LISTEN=127.0.0.1:0 for any port)
serve: $(STAMP)
	$(BIN)/python -m muntin.demo.served $(LISTEN)

# Run all tests, in parallel
test: $(STAMP)
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

# Run again, one after the other, the tests that failed in the last run
test-again: $(STAMP)
	$(BIN)/python -m pytest --last-failed --last-failed-no-failures none --verbose

# Run the tests that take seconds, and stop at the first failure
test-fast: $(STAMP)
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -x -q -m "not slow and not faults and not api and not kafka and not browser and not wheel"

# Kill the server, and workers, executors and drivers of Spark while they run, and compare answers; takes minutes
test-faults: $(STAMP)
	$(BIN)/python -m pytest -m faults tests/archive tests/serve tests/spark

# Make requests up from the server's OpenAPI description, with good and wrong tokens; takes minutes
test-api: $(STAMP)
	test -x $(API)/bin/schemathesis || { $(BIN)/python -m venv $(API) && $(API)/bin/pip install --quiet 'schemathesis>=4.30,<5'; }
	SCHEMATHESIS=$(API)/bin/schemathesis $(BIN)/python -m pytest -m api -s tests/serve/test_api.py

# Drive the console of `muntin serve` with a real Chromium, which must be on the path; takes a minute
test-browser: $(STAMP)
	$(BIN)/python -c "import playwright" 2>/dev/null || $(BIN)/python -m pip install --quiet --editable '.[browser]'
	$(BIN)/python -m pytest -m browser tests/browser

# Build the wheel, install it alone on each Python there is, and use it; downloads packages, takes minutes
test-wheels: $(STAMP)
	$(BIN)/python -m pytest -m wheel -rs tests/wheel

# Start a broker of Kafka, kill it, the server and Spark while events flow, and count them; takes minutes
test-kafka: $(STAMP)
	$(BIN)/python -m pytest -m kafka tests/serve tests/spark

# Put small mistakes into muntin and see which the tests notice; takes an hour (ARGS="--sample 40 --seed 7")
mutants: $(STAMP)
	$(BIN)/python -m mutants $(ARGS)

# Lint, check formatting, types and the direction of imports
check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Format the code and fix what can be fixed
format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Run the benchmarks; write benchmarks/results/ and docs/benchmarks.md
bench: $(STAMP)
	$(BIN)/python -m benchmarks

# Redraw the figures of the papers
figures: $(STAMP)
	@if [ -d benchmarks/figures ]; then $(BIN)/python -m benchmarks.figures; \
	else echo "There are no figures yet: they come with the next milestone."; fi

# Rewrite the generated parts of the docs: fact sheets, rules, command line
docs: $(STAMP)
	$(BIN)/python docs/generate.py

# Make a site of the docs, build/site/VERSION/index.html, with search and a list of versions
site: $(STAMP)
	test -x $(SITE)/bin/sphinx-build || { $(BIN)/python -m venv $(SITE) && $(SITE)/bin/pip install --quiet \
		$$($(BIN)/python -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies']['docs'])"); }
	$(SITE)/bin/python docs/build_site.py

# Pin the newest packages that pyproject.toml allows, in requirements.lock
lock: $(STAMP)
	CUSTOM_COMPILE_COMMAND="make lock" \
	$(BIN)/pip-compile --quiet --upgrade --extra dev --extra bench --extra serve --extra spark --extra delta --strip-extras \
		--no-emit-options --no-emit-index-url --no-emit-find-links --no-emit-trusted-host \
		--annotation-style line --output-file requirements.lock pyproject.toml

# Remove what the tools leave behind (not .venv)
clean:
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .mutants
	find . -path ./$(VENV) -prune -o \( -name __pycache__ -o -name '*.egg-info' \) -type d -exec rm -rf {} +

$(STAMP): requirements.lock pyproject.toml
	@$(or $(PYTHON),false) -c '$(IS_NEW_ENOUGH)' || { \
		echo "muntin needs Python 3.11 or later; found: $$($(or $(PYTHON),python3) --version 2>&1)." \
		"Name one with: make setup PYTHON=python3.11"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo "Python's venv module is missing" \
		"(Debian and Ubuntu: install python3-venv)."; rm -rf $(VENV); exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	$(BIN)/muntin warm-up
	@touch $@
