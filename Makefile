# Every target makes its own virtual environment from nothing but python3 and pip.
PYTHON ?= python3
BIN := .venv/bin
PIP_INSTALL = $(BIN)/pip install --quiet --disable-pip-version-check --no-compile
CORE := .venv/.core
READY := .venv/.ready
COMPILED := .venv/.compiled
# Tests start many processes, and each would compile every module and every assertion anew.
unexport PYTHONDONTWRITEBYTECODE
# Two workers have the cores: threads of BLAS beside them wait for each other at full speed (matrices of 256 x 16 then
# take fifty times their processor time).
check test nightly coverage: export OPENBLAS_NUM_THREADS = 1

.PHONY: demo check test nightly coverage bench accuracy fuzz mutants docs lint linted-and-compiled clean

demo: $(CORE)         ## release the bundled table and ask it a few questions; installs the core alone
	$(BIN)/dpcube demo

check: linted-and-compiled  ## the quick tests, without processes and statistics: under a minute
	$(BIN)/pytest -q -n 2 --dist worksteal -m "not slow and not nightly" --hypothesis-profile=quick \
		tests/unit tests/golden tests/property tests/architecture

test: linted-and-compiled   ## everything CI runs: ten minutes of two idle cores
	$(BIN)/pytest -q -n 2 --dist worksteal -m "not nightly" --durations=10

nightly: linted-and-compiled  ## every test, with more examples; long fuzzing; a sample of the mutants
	$(BIN)/pytest -q -n 2 --dist worksteal --hypothesis-profile=nightly --durations=30
	$(MAKE) fuzz FUZZ_SECONDS=300
	$(MAKE) mutants MUTANTS="$(NIGHTLY_MUTANTS)"

coverage: $(COMPILED) ## the same with the lines and branches that no test reaches; tracing takes as long again
	$(BIN)/pytest -q -n 2 --dist worksteal -m "not nightly" --cov --cov-report=term:skip-covered

# Two cores, and neither waits for the other: types are checked while loops are compiled.
linted-and-compiled: $(READY)
	$(MAKE) -j 2 lint $(COMPILED)

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(COMPILED)    ## speed, as ratios measured in one run
	$(BIN)/python -m benchmarks

DPBENCH ?= ../shared/data/dpbench
accuracy: $(COMPILED) ## errors with fresh noise beside those of the rivals, on DPBench's arrays (not ours to give away)
	$(BIN)/python -m dpcube.research.accuracy --groups dpbench --data $(DPBENCH) $(ACCURACY)

NIGHTLY_MUTANTS ?= --sample 5
FUZZ_SECONDS ?= 60
fuzz: $(READY)        ## hostile files, questions and commands, guided by coverage, this long for each target
	$(BIN)/python tests/fuzz --seconds $(FUZZ_SECONDS)

mutants: $(READY)     ## small faults put into trusted code: which do the tests notice? (hours, resumable; MUTANTS=privacy/noise)
	$(BIN)/python tools/mutants.py $(MUTANTS)

DOCS_READY := .venv-docs/.ready
docs: $(DOCS_READY)   ## the site of the documentation, in site/: spelling, then pages and links, where a warning is an error
	.venv-docs/bin/codespell --ignore-words-list=$(SPELT) README.md docs examples --skip '*.csv,*.json,*.svg,*.png'
	.venv-docs/bin/zensical build --clean --strict

SPELT := regoin,widht
$(DOCS_READY):
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/pip install --quiet --disable-pip-version-check zensical==0.0.73 codespell==2.4.3
	touch $@

# Packages bring 195 MB of modules, of which importing what tests use takes a third, and Python compiles those when it imports them.
$(READY): $(CORE)
	$(PIP_INSTALL) -e ".[dev]"
	touch $@

$(CORE): pyproject.toml
	$(PYTHON) -m venv .venv
	$(PIP_INSTALL) -e .
	touch $@

$(COMPILED): $(READY)
	$(BIN)/dpcube compile
	touch $@

clean:
	rm -rf .venv .venv-docs site .cache .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .coverage .mutants
