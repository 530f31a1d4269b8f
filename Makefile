# Needs Python >= 3.11 and make, and nothing set up beforehand.
#   make demo    train the digits example
#   make test    lint, types, tests, doctests; laws of many cases are held to a part of them, always the same, slow tests are
#                left out, and each case is run on one kind of event loop
#   make test-compiled   the tests and doctests again, with every backward compiled whose graph has been seen before
#   make test-all    lint, types, every case of the tests and the doctests, and make test-compiled with a twentieth of the cases;
#                    CASES=0.5 for half of the cases of laws that have many; below 0.11 as make test
#   make test-pythons    the tests and doctests of make test on each Python of VERSIONS that is here, with its newest NumPy
#   make test-lowest     the tests and doctests of make test with the lowest versions that pyproject.toml admits, in .venv-lowest
#   make dist    the sdist and the wheel of what is committed, in dist/: checked, and installed alone on each Python of VERSIONS
#                with the lowest and the newest NumPy; TAG=v1.2.3 has to be the version, HOME_PAGE=https://... goes into links
#   make publish     upload what is in dist/ by trusted publishing: only a release's workflow can
#   make bench   measure against the peers; write the tables of README and docs/performance.md, the chart, and every round as JSON
#   make bench-jit   measure compiled functions beside other compilers; write the tables of docs/jit.md
#   make bench-waiting   measure programs that wait beside what their waits allow; write the table of docs/batching-and-limits.md
#   make docs        build the documentation with the reference of all names as a site, in build/docs
#   make coverage    write docs/coverage.md, which lists what asyncgrad does with each function of NumPy, and the list of
#                    differences in docs/scipy.md
#   make stubs   write what type checkers are told of asyncgrad.nn, .numpy and .scipy.special, for the NumPy and SciPy installed
#   make notebooks   run the notebooks of docs/notebooks and write them with their output; needs Graphviz
#   make bench-imports   time `import asyncgrad` beside `import numpy`, in fresh processes
#   make bench-count     count instructions, of this tree and of the commit BASE (the one before, if none is named)
#   make test-gpu    the tests that need an NVIDIA GPU, and the examples of docs/gpu.md
#   make bench-gpu   measure on an NVIDIA GPU beside PyTorch; QUICK=1 takes less than 3 minutes
#   make programs    random programs, held to NumPy: 25 times as many as in make test-all
#   make demo-distributed   train three stages on a Dask cluster of this machine, and kill a worker in the midst
#   make chaos       backward passes during each of which a worker is harmed, 300, and trainings whose messages are late, lost
#                    and repeated, 1000: on a Dask cluster and over HTTP; learners and followers that are killed, 200;
#                    SEED=1 for others
#   make soak        trainings over HTTP, with cancellations, for MINUTES=10: descriptors, tasks and memory stay the same
#   make schedules   the laws of concurrency, each on a hundred times as many schedules as in make test-all
PYTHON ?= python3
VENV ?= .venv

VERSIONS ?= 3.11 3.12 3.13

BIN := $(VENV)/bin

LOWEST := .venv-lowest
# The extras that the tests use: all but other libraries of autodiff, which weigh gigabytes, and what needs a GPU.
TESTED_EXTRAS := demo,scipy,serve,dask,metrics,safetensors,progress,opentelemetry,offload,umbridge,tesseract,jit,visualize

# The tests start hundreds of processes, each of which would compile every module again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo demo-distributed test test-compiled test-all test-pythons test-lowest dist publish lint types pytest schedules chaos soak programs bench bench-imports bench-jit bench-waiting bench-count bench-gpu test-gpu docs notebooks coverage stubs format clean

demo: $(VENV)/.demo
	$(BIN)/python examples/train_digits.py

# One process checks types, on one core: the tests have begun meanwhile.
test: lint
	$(MAKE) --jobs=2 types pytest

demo-distributed: $(VENV)/.dev
	$(BIN)/python examples/lost_worker.py

# ASYNCGRAD_CASES is the share of the cases that are run: tests/support/sampling.py.
# ASYNCGRAD_BACKWARD_RECORD names a file of those that run no backward, which need not run again: tests/support/backwards.py.
CASES ?= 1
test-all: export ASYNCGRAD_CASES = $(CASES)
test-all: export ASYNCGRAD_BACKWARD_RECORD = .tests-without-backward
test-all: lint
	$(MAKE) --jobs=2 types pytest
	$(MAKE) test-compiled COMPILED_CASES=0.05

# An interpreter is here if it is on the path or among those that pyenv has built. Types are checked with the NumPy of
# Python 3.11 alone: what another says of its own functions is narrower in one place and wider in the next.
test-pythons:
	@tested=; for version in $(VERSIONS); do \
		for python in python$$version $$(ls -d $$HOME/.pyenv/versions/$$version.*/bin/python 2>/dev/null); do \
			if $$python -c '' 2>/dev/null; then break; fi; python=; \
		done; \
		if [ -z "$$python" ]; then echo "Python $$version is not here: skipped"; continue; fi; \
		echo "Python $$version: $$python"; \
		$(MAKE) pytest PYTHON=$$python VENV=.venv-$$version || exit 1; \
		tested="$$tested $$version"; \
	done; \
	[ -n "$$tested" ] && echo "passed on Python$$tested"

# Types are those of the newest NumPy, and linters find what is new, so neither is run.
test-lowest: $(LOWEST)/.test
	$(LOWEST)/bin/python -m pytest --numprocesses=auto --dist=worksteal

dist: $(VENV)/.release
	$(BIN)/python -m tools.dist $(VERSIONS) $(if $(TAG),--tag $(TAG)) $(if $(HOME_PAGE),--home-page $(HOME_PAGE))

publish: $(VENV)/.release
	$(BIN)/uv publish --trusted-publishing always dist/*

# check-jsonschema knows what a workflow and a citation may say, and zizmor what it had better not.
lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --quiet --builtin-schema custom.github-workflows-require-timeout .github/workflows/*.yml
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.citation-file-format CITATION.cff
	$(BIN)/zizmor --offline --quiet --no-progress .

types: $(VENV)/.dev
	$(BIN)/mypy --strict

# Each core has a process of tests. With BLAS threads of their own they wait for cores that others hold: tests of small
# matrices take five times the processor time.
pytest test-compiled test-lowest: export OPENBLAS_NUM_THREADS ?= 1

pytest: $(VENV)/.dev
	$(BIN)/python -m pytest --numprocesses=auto --dist=worksteal

# A test that is not sampled is run with one of its cases, which have all been run otherwise.
# Without the tests of what runs no backward: the source, the package, the benchmarks' tables, the source of kernels;
# and without the examples, which take a minute, and whose models the other tests train too.
COMPILED_CASES ?= $(or $(ASYNCGRAD_CASES),0.1)

test-compiled: $(VENV)/.dev
	ASYNCGRAD_CASES=$(COMPILED_CASES) ASYNCGRAD_MOST=1 ASYNCGRAD_COMPILED_AFTER=1 $(BIN)/python -m pytest --numprocesses=auto --dist=worksteal \
		--ignore-glob='tests/house/test_architecture.py' --ignore-glob='tests/house/test_house_rules.py' \
		--ignore-glob='tests/programs/test_packaging.py' --ignore-glob='tests/programs/test_benchmark_*.py' \
		--ignore-glob='tests/house/test_facades.py' --ignore-glob='tests/programs/test_examples.py' \
		--ignore-glob='tests/devices/test_cuda_*.py'

# Minutes: a real cluster, whose workers are killed, stopped and cut off, and whose messages have faults.
SEED ?= 0
chaos: $(VENV)/.dev
	$(BIN)/python -m benchmarks.chaos 200 --transport dask --seed $(SEED)
	$(BIN)/python -m benchmarks.chaos 100 --transport http --seed $(SEED)
	$(BIN)/python -m benchmarks.chaos_messages 500 --transport dask --seed $(SEED)
	$(BIN)/python -m benchmarks.chaos_messages 500 --transport http --seed $(SEED)
	$(BIN)/python -m benchmarks.chaos_learner 200 --seed $(SEED)

MINUTES ?= 10
soak: $(VENV)/.dev
	$(BIN)/python -m benchmarks.soak $(MINUTES)

# Hours; no test has a limit of its own.
schedules: $(VENV)/.dev
	ASYNCGRAD_CASES=100 $(BIN)/python -m pytest --timeout=0 tests/core/engine/test_schedules_*.py

programs: $(VENV)/.dev
	ASYNCGRAD_CASES=25 $(BIN)/python -m pytest --timeout=0 --numprocesses=auto tests/programs/test_random_programs.py

ROUNDS ?= 7

bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks --write --rounds $(ROUNDS)
	$(BIN)/python -m benchmarks.headline

BASE ?= HEAD~1

bench-count: $(VENV)/.demo
	$(BIN)/python -m benchmarks.count --base $(BASE)

bench-jit: $(VENV)/.bench
	$(BIN)/python -m benchmarks jit --write
	$(BIN)/python -m benchmarks.headline

bench-waiting: $(VENV)/.bench
	$(BIN)/python -m benchmarks waiting --write
	$(BIN)/python -m benchmarks.headline

bench-imports: $(VENV)/.demo
	$(BIN)/python -m benchmarks.imports

# The extra of the CUDA that the driver supports: cuda12 or cuda13. PyTorch is compared with if it is built for CUDA.
CUDA ?= cuda13

# Not in parallel: tests measure the memory of the GPU, and fill it. Every case of every rule is run.
test-gpu: $(VENV)/.gpu
	@$(BIN)/python -c 'import sys; from benchmarks.gpu.hardware import missing; sys.exit(missing("cuda:0"))'
	ASYNCGRAD_GPU=cuda:0 ASYNCGRAD_CASES=1 $(BIN)/python -m pytest --timeout=180 tests/gpu tests/house/test_docs.py

bench-gpu: $(VENV)/.gpu
	$(BIN)/python -m benchmarks.gpu $(if $(QUICK),--quick)

docs: $(VENV)/.docs
	$(BIN)/python -m tools.docs_site

coverage: $(VENV)/.dev
	$(BIN)/python -m tools.coverage_page
	$(BIN)/python -m tools.upstream_differences

stubs: $(VENV)/.dev
	$(BIN)/python -m tools.numpy_stubs
	$(BIN)/python -m tools.nn_stubs
	$(BIN)/python -m tools.special_stubs

notebooks: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --group notebooks
	$(BIN)/python -m tools.notebooks

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .venv-* build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find asyncgrad devices tests examples benchmarks -name __pycache__ -prune -exec rm -rf {} +

# Each stamp is one level of set-up, made anew when pyproject.toml changes.
$(VENV)/.demo: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "asyncgrad needs Python 3.11 or newer: make PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1' # the first that knows --group
	$(BIN)/python -m pip install --quiet --editable '.[demo]'
	touch $@

$(VENV)/.dev: $(VENV)/.demo
	$(BIN)/python -m pip install --quiet --group dev
	touch $@

$(VENV)/.release: $(VENV)/.demo
	$(BIN)/python -m pip install --quiet --group release
	touch $@

# What depends on what is named in pyproject.toml is the newest that goes with it.
$(LOWEST)/.test: pyproject.toml $(VENV)/.release
	$(BIN)/uv venv --quiet --clear --seed --python $(PYTHON) $(LOWEST) # tests install by its pip
	$(BIN)/uv pip install --quiet --python $(LOWEST)/bin/python --resolution lowest-direct --group test --editable '.[$(TESTED_EXTRAS)]'
	touch $@

$(VENV)/.docs: $(VENV)/.demo
	$(BIN)/python -m pip install --quiet --group docs
	touch $@

$(VENV)/.bench: $(VENV)/.demo
	$(BIN)/python -m pip install --quiet --editable '.[bench,jit,scipy,serve]'
	touch $@

$(VENV)/.gpu: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --editable '.[$(CUDA),oracle]'
	touch $@
