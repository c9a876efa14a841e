# Every target makes its own virtual environment from nothing but python3 and pip.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
# Tests start many processes, and each would compile every module and every assertion anew.
unexport PYTHONDONTWRITEBYTECODE
# Two workers have the cores: threads of BLAS beside them wait for each other at full speed (matrices of 256 x 16 then
# take fifty times their processor time).
check test coverage: export OPENBLAS_NUM_THREADS = 1

.PHONY: demo check test coverage bench accuracy fuzz mutants lint clean

demo: $(READY)        ## release the bundled table and ask it a few questions
	$(BIN)/dpcube demo

check: lint           ## the quick tests, without processes and statistics: under a minute
	$(BIN)/pytest -q -n 2 --dist worksteal -m "not slow" --hypothesis-profile=quick \
		tests/unit tests/golden tests/property tests/architecture

test: lint            ## everything CI runs
	$(BIN)/pytest -q -n 2 --dist worksteal --durations=10

coverage: $(READY)    ## the same with the lines and branches that no test reaches; tracing takes as long again
	$(BIN)/pytest -q -n 2 --dist worksteal --cov --cov-report=term:skip-covered

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(READY)       ## speed, as ratios measured in one run
	$(BIN)/python -m benchmarks

DPBENCH ?= ../shared/data/dpbench
accuracy: $(READY)    ## errors with fresh noise beside those of the rivals, on DPBench's arrays (not ours to give away)
	$(BIN)/python -m dpcube.evaluate.accuracy --data $(DPBENCH) $(ACCURACY)

FUZZ_SECONDS ?= 60
fuzz: $(READY)        ## hostile files, questions and commands, guided by coverage, this long for each target
	$(BIN)/python tests/fuzz --seconds $(FUZZ_SECONDS)

mutants: $(READY)     ## small faults put into trusted code: which do the tests notice? (hours, resumable; MUTANTS=privacy/noise)
	$(BIN)/python tools/mutants.py $(MUTANTS)

$(READY): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -e ".[dev]"
	$(BIN)/dpcube compile
	touch $@

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .coverage .mutants
