# Two commands do everything on a machine that has Python 3.11 or newer, make and a package index:
#   make demo   sets up, and runs the main job
#   make test   sets up, and passes every check
PYTHON ?= python3
BIN := .venv/bin
export PYTHONDONTWRITEBYTECODE := 1
# One thread a process: the tests and benchmarks start their own processes.
export OMP_NUM_THREADS := 1
export OPENBLAS_NUM_THREADS := 1

.PHONY: demo test bench clean

.venv/ready: requirements.txt pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

demo: .venv/ready
	@$(BIN)/python -m examples.demo

# What is not there beside Python: without it the tests of Spark or of PostgreSQL are skipped, and that is said.
NO_JAVA := $(if $(JAVA_HOME)$(shell command -v java),,tests of Spark (there is no Java))
NO_POSTGRES := $(if $(shell command -v initdb)$(wildcard /usr/lib/postgresql/*/bin/initdb),,tests of PostgreSQL (it is not installed))

test: .venv/ready
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	@$(if $(NO_JAVA)$(NO_POSTGRES),echo "Left out: $(NO_JAVA)$(if $(NO_JAVA),$(if $(NO_POSTGRES),; ))$(NO_POSTGRES)")
	$(BIN)/python -m pytest --numprocesses 2

# The libraries that shoal is measured beside want other versions, and so they live in a place of their own.
.venv-bench/ready: benchmarks/requirements.txt
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check -r benchmarks/requirements.txt
	@touch $@

bench: .venv/ready
	-@$(MAKE) --no-print-directory .venv-bench/ready
	@$(BIN)/python -m benchmarks

clean:
	rm -rf .venv .venv-bench demo build dist .mypy_cache .ruff_cache .hypothesis
