# On a machine that has Python 3.11 or newer, make and a package index:
#   make demo        sets up a small environment, and runs the main job: about a minute
#   make quick       checks without running, and the fast tests, after each change: less than a minute
#   make test        every check and every test, before a pull request: less than 15 minutes on two cores
#   make test AREA=collect  the tests of one area: accounting, data, training, collect or interfaces
#   make exhaustive  the same tests with all points of their grids, before a release: about three times as long
#   make docs        builds the site into site/, without a network
PYTHON ?= python3
BIN := .venv/bin
# Compiled files are kept, in __pycache__ folders that git ignores: the tests start hundreds of processes, and each would
# compile shoal again, 0.4 s of 0.8 s for a shuffler.
export PYTHONDONTWRITEBYTECODE :=
# One thread a process: the tests and benchmarks start their own processes.
export OMP_NUM_THREADS := 1
export OPENBLAS_NUM_THREADS := 1

.PHONY: all-tests bench clean coverage demo dist docs exhaustive fast-tests format lint lock quick style tagged test types

# Everything comes from a lock, and is refused if its hash differs; PyTorch has a lock without a hash, and says why there.
# The lock has all that is needed, so that nothing is looked up: Opacus asks for PyTorch, which is not in it.
# Modules are compiled when they are first imported: compiling all that is installed takes most of a minute.
.venv/ready: export PIP_DISABLE_PIP_VERSION_CHECK := 1
.venv/ready: requirements.txt requirements-torch.txt pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --no-compile --no-deps --require-hashes -r requirements.txt
	$(BIN)/python -m pip install --quiet --no-compile -r requirements-torch.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

# The demonstration needs neither PyTorch nor Spark, and so it has a small place of its own. What it imports is compiled
# as it is imported, there, and not all that is installed.
DEMO := .venv-demo/bin/python
.venv-demo/ready: export PIP_DISABLE_PIP_VERSION_CHECK := 1
.venv-demo/ready: requirements-demo.txt pyproject.toml
	@echo "Setting up the demonstration in .venv-demo: 3 steps, about half a minute and 400 MB; the next time there are none."
	@echo "  1 of 3: a Python environment, about 5 seconds"
	@$(PYTHON) -m venv .venv-demo
	@echo "  2 of 3: $$(grep -c == $<) libraries, about 110 MB to download: 15 seconds, or more where the network is slow"
	@$(DEMO) -m pip install --quiet --no-compile --require-hashes -r $<
	@echo "  3 of 3: shoal itself, about 5 seconds"
	@$(DEMO) -m pip install --quiet --no-compile --no-deps --no-build-isolation --editable .
	@touch $@

demo: export PYTHONPYCACHEPREFIX := $(CURDIR)/.venv-demo/pycache
demo: .venv-demo/ready
	@echo "Running the demonstration: about half a minute."
	@$(DEMO) -m examples.demo

# What is not there beside Python: without it the tests of Spark, of PostgreSQL, of nginx or of the page are skipped, and that is said.
NO_JAVA := $(if $(JAVA_HOME)$(shell command -v java),,tests of Spark (there is no Java))
NO_POSTGRES := $(if $(shell command -v initdb)$(wildcard /usr/lib/postgresql/*/bin/initdb),,tests of PostgreSQL (it is not installed))
NO_NGINX := $(if $(shell command -v nginx)$(wildcard /usr/sbin/nginx),,tests of nginx (it is not installed))
NO_CHROMIUM := $(if $(shell command -v chromium),,tests of the page (there is no Chromium))

lint: style types

style: .venv/ready
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports --no-cache

types: .venv/ready
	$(BIN)/mypy

# What to run after every change: all that is checked without running, and the tests that are not marked as slow. Tests
# of torch and of other large libraries are left out, because every process takes ten seconds to import these libraries.
# mypy is one process that takes a minute on a fresh clone, and so it runs at the same time as the tests.
LARGE := tests/examples tests/interop tests/sgd/opacus_tests tests/sgd/torch_tests tests/web
quick: .venv/ready
	@$(MAKE) --no-print-directory --jobs 2 lint fast-tests

fast-tests: .venv/ready
	$(BIN)/python -m pytest --numprocesses auto -m "not slow" tests $(LARGE:%=--ignore=%)

format: .venv/ready
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

test: .venv/ready
	@for what in "$(NO_JAVA)" "$(NO_POSTGRES)" "$(NO_NGINX)" "$(NO_CHROMIUM)"; do [ -z "$$what" ] || echo "Left out: $$what"; done
	@$(MAKE) --no-print-directory --jobs 2 lint all-tests

# `make test AREA=collect` runs the tests of one area, in a quarter of the time.
AREAS := accounting data training collect interfaces
IN_accounting := amplification answers calibration composition numerics oracles pairs proofs
IN_data := estimation files mechanisms planning
IN_training := sgd interop
IN_collect := collect
IN_interfaces := charts cli docs examples figures questions recipes review web test_*.py
AREA ?=
$(if $(AREA),$(if $(filter $(AREA),$(AREAS)),,$(error There is no area "$(AREA)", only: $(AREAS))))

all-tests: .venv/ready
	$(BIN)/python -m pytest --numprocesses auto $(wildcard $(addprefix src/shoal/,$(IN_$(AREA))) $(addprefix tests/,$(IN_$(AREA))))

# The same tests: tests/exhaustive.py says what the variable changes.
exhaustive: export SHOAL_EXHAUSTIVE := 1
exhaustive: test

# The fast tests, with every line that they run, in a minute and a half; `make coverage TESTS=` for all of them. Fails
# below `fail_under` in pyproject.toml.
TESTS ?= -m "not slow" tests
coverage: export COVERAGE_CORE = $(shell $(BIN)/python -c "import sys; print('sysmon' if sys.version_info >= (3, 12) else 'ctrace')")
coverage: .venv/ready
	$(BIN)/python -m pytest --numprocesses auto --cov $(TESTS)

# The libraries that shoal is measured beside want other versions, and so they live in a place of their own.
.venv-bench/ready: export PIP_DISABLE_PIP_VERSION_CHECK := 1
.venv-bench/ready: benchmarks/requirements.txt requirements-torch.txt
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python -m pip install --quiet -r requirements-torch.txt
	.venv-bench/bin/python -m pip install --quiet --require-hashes -r benchmarks/requirements.txt
	@touch $@

bench: .venv/ready
	-@$(MAKE) --no-print-directory .venv-bench/ready
	@$(BIN)/python -m benchmarks

# Pins what pyproject.toml asks for, for every system and Python that shoal runs on. Pins that still fit stay as they
# are; `make lock UPGRADE=--upgrade` takes the newest.
UPGRADE ?=
COMPILE := UV_CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/uv pip compile --quiet --universal --python-version 3.11 \
  --generate-hashes --no-annotate --no-emit-package torch --constraint requirements-torch.txt $(UPGRADE)
lock: .venv/ready
	$(COMPILE) pyproject.toml --all-extras --group dev --output-file requirements.txt
	$(COMPILE) pyproject.toml --extra cli --extra collect --extra plot --extra postgres --group demo --constraint requirements.txt --output-file requirements-demo.txt
	$(COMPILE) --group bench --output-file benchmarks/requirements.txt

# The site, in one folder, from nothing that is not installed: warnings are errors. Pages are generated beside copies of
# those that are written, in build/docs. `make test` builds it, too.
docs: .venv/ready
	rm -rf build/docs site
	mkdir -p build
	cp -R docs build/docs
	rm -rf build/docs/tutorials
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going --nitpicky -c docs build/docs site

# Builds the wheel and the source distribution, and checks both: also that a second build is the same byte for byte.
# The bill of materials lists what the lock pins of the library and all its extras, and not what only developers need.
SBOM = build/sbom/shoal-dp-$(VERSION).cdx.json
dist: export SOURCE_DATE_EPOCH ?= 1580601600
dist: .venv/ready
	rm -rf dist build/sbom
	$(BIN)/python -m hatchling build
	$(BIN)/twine check --strict dist/*
	mkdir -p build/sbom
	$(COMPILE) pyproject.toml --all-extras --constraint requirements.txt --output-file build/sbom/requirements.txt
	$(BIN)/cyclonedx-py requirements --pyproject pyproject.toml --mc-type library --output-reproducible --validate \
	  --spec-version 1.6 --output-file $(SBOM) build/sbom/requirements.txt
	SHOAL_DIST=dist SHOAL_SBOM=$(SBOM) $(BIN)/python -m pytest tests/test_distribution.py

# Succeeds if TAG is this version, and the changelog has a section for it.
VERSION := $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' src/shoal/__init__.py)
CHANGELOG := CHANGELOG.md
tagged:
	@test "$(TAG)" = "v$(VERSION)" || { echo "the tag is $(TAG), and the version $(VERSION)"; exit 1; }
	@grep -q "^## \[$(VERSION)\] – 20" $(CHANGELOG) || { echo "$(CHANGELOG) has no section for $(VERSION)"; exit 1; }

clean:
	rm -rf .venv .venv-bench .venv-demo demo build dist site .mypy_cache .ruff_cache .hypothesis .coverage*
