# Every target works on a fresh machine with Python >= 3.11 and make: it creates .venv and
# installs what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
.DEFAULT_GOAL := help

# Many tests start processes, which should not compile the whole project each time.
unexport PYTHONDONTWRITEBYTECODE
.PHONY: help demo test test-all test-rest mutants browser check check-pyright check-others format artifact bench site lock wheels package image audit proto typescript clean
help:            ## show this
	@sed -n 's/^\([a-z-]*\): .*## /  make \1   /p' $(MAKEFILE_LIST)

# What is never imported is not compiled: that took half of the time of a first `make demo`.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "geoveil needs Python >= 3.11, this is " + sys.version)'
	$(PYTHON) -m venv $(VENV)
	$(PIP) --require-hashes --requirement requirements/pip.txt

# One stamp per set of extras; a larger set holds the smaller ones.
HOLDS_all := all
HOLDS_test := all test
HOLDS_dev := all test dev
HOLDS_bench := all test bench
HOLDS_site := all site
# All that is needed stands in requirements/, hatchling too, which builds the package itself.
$(VENV)/.stamp-%: pyproject.toml gp/geoveil/gp/version.py requirements/%.txt | $(BIN)/python
	$(PIP) --no-deps --require-hashes --requirement requirements/$*.txt
	$(PIP) --no-deps --no-build-isolation --editable .
	@touch $(HOLDS_$*:%=$(VENV)/.stamp-%)

demo: $(VENV)/.stamp-all            ## the whole path once: real data, real server, 20,000 devices (< 1 min)
	$(BIN)/geoveil demo $(DEMO)

# Three workers keep two cores busy while one waits for a server or a disk. None has threads for
# matrices, which would wait for each other. What is left out for want of a browser or of Node is
# said at the end.
PYTEST := OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 3 -q -rs
test: $(VENV)/.stamp-test            ## the tests that a change is likely to break (4 min on two cores)
	$(PYTEST) --dist loadfile $(TESTS)

test-all: $(VENV)/.stamp-test            ## all tests, those that take long as well
	$(PYTEST) --dist worksteal --tier all $(TESTS)

test-rest: $(VENV)/.stamp-test            ## one case of each test of test-all that has none in test (12 min)
	$(PYTEST) --dist worksteal --tier rest $(TESTS)

APT := $(if $(filter 0,$(shell id -u)),,sudo )apt-get
MISSING = $(if $(shell command -v chromium),,chromium) $(if $(shell command -v npm),,nodejs npm)
browser:         ## install Chromium and Node, which some tests need (Debian and its relatives)
	$(if $(strip $(MISSING)),$(APT) update -q && \
	    $(APT) install -q --yes --no-install-recommends $(MISSING),@:)

mutants: $(VENV)/.stamp-test          ## change the code in small ways: do the tests notice? (half an hour; PARTS="ledger ...")
	$(BIN)/python -m tools.mutants tools/mutants.toml $(PARTS)

check: $(VENV)/.stamp-dev            ## format, lint, types, layers, generated code
	@$(MAKE) --no-print-directory --jobs 2 --output-sync check-pyright check-others

# It takes as long as all the others together, and one core.
check-pyright:
	$(BIN)/pyright --pythonpath $(BIN)/python

check-others:
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/mypy
	tools/check-protos.sh

format: $(VENV)/.stamp-dev            ## format and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

artifact: $(VENV)/.stamp-test         ## run the claims of ARTIFACT.md, compare with their ranges (< 10 min)
	$(BIN)/python tools/artifact.py

bench: $(VENV)/.stamp-bench           ## speed, as ratios within one run, beside the last release
	$(BIN)/python -m benchmarks --write .bench/now.json --compare

site: $(VENV)/.stamp-test $(VENV)/.stamp-site            ## the documents as a site in dist/site (3 min); a warning, or a wrong figure, is an error
	$(PYTEST) tests/test_document_figures.py "tests/test_pages.py::test_a_page_of_minutes_is_pasted_without_a_failure[tutorial]"
	$(BIN)/python tools/site.py

lock:            ## find the latest versions that fit, write them to requirements/ with hashes
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/pip install --quiet --upgrade uv
	.venv-lock/bin/python tools/lock.py .venv-lock/bin/uv

# For these Pythons nothing is run here: that all wheels are there is what is known of them.
wheels:           ## look for wheels of what requirements/all.txt names, for Python 3.12 to 3.14
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/pip install --quiet --upgrade uv
	@for version in 3.12 3.13 3.14; do \
	    .venv-lock/bin/uv pip compile --quiet --only-binary :all: --python-version $$version \
	        --extra all --constraint requirements/all.txt --output-file /dev/null pyproject.toml \
	        && echo "Python $$version: every dependency has a wheel" || exit 1; done

# Builds are compared with a second of the same tree, byte for byte.
PACK := cd client/typescript && npm pack --silent --pack-destination
package: $(VENV)/.stamp-test            ## build the wheel, the source archive and the npm package, twice
	$(BIN)/python tools/sbom.py && git diff --exit-code client/typescript/sbom.cdx.json
	test -d client/typescript/node_modules || \
	    (cd client/typescript && npm ci --ignore-scripts --no-audit --no-fund)
	rm -rf dist && mkdir dist
	$(BIN)/python -m hatchling build -d dist && ($(PACK) $(CURDIR)/dist)
	again=$$(mktemp -d) && $(BIN)/python -m hatchling build -d $$again && ($(PACK) $$again) && \
	    diff -r dist $$again && rm -rf $$again
	cd dist && sha256sum *

image: $(VENV)/.stamp-all              ## the image of a server in dist/image, as root on Debian (1 min)
	$(BIN)/python tools/image.py dist/image

audit:            ## look for known vulnerabilities in what requirements/ names (asks a database)
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/pip install --quiet --upgrade pip-audit
	.venv-lock/bin/python tools/audit.py .venv-lock/bin/pip-audit

proto:            ## generate the Python code of proto/
	tools/protoc.sh

typescript:       ## install, compile and test the device in TypeScript (Node 20 or later, npm)
	cd client/typescript && npm ci --ignore-scripts --no-audit --no-fund && npm test

clean:            ## remove what the other targets made
	rm -rf $(VENV) .venv-lock .venv-proto .pytest_cache .mypy_cache .ruff_cache .hypothesis demo.png \
		client/typescript/node_modules client/typescript/build client/typescript/dist
