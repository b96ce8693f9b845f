# Everything runs in a virtual environment of its own (.venv) with pinned packages; what takes long to build is cached
# outside the tree, under $XDG_CACHE_HOME/vgpu-scheduler.
SHELL := /bin/bash
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip --quiet --disable-pip-version-check install --no-compile --constraint constraints.txt
COMPILER := msgspec numba numpy pydantic PyYAML
ARGS ?=
DIR ?= tests/vectors

.DEFAULT_GOAL := help
.PHONY: help demo test test-pure test-long test-all assets debian-image lint format vectors bench e2e older faults manifests picture screenshots docs \
  image bundle clean

help: ## explain the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# The kernels need only a few of the packages: they are compiled while the others are installed.
$(VENV)/ready: pyproject.toml devcluster/pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11, 2))' || { echo "Python 3.11.2 or newer is needed (set PYTHON=...)"; exit 1; }
	@echo "environment 1/3: virtual environment in $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@echo "environment 2/3: packages that the kernels need (about 70 MB to download the first time)"
	@$(PIP) $(COMPILER)
	@echo "environment 3/3: the other packages, while the kernels are compiled"
	@PYTHONPATH=operator $(BIN)/python -m vgpu_scheduler.runtime.warmup & compiling=$$!; \
	  $(PIP) --editable . --editable devcluster && wait $$compiling
	@touch $@

$(VENV)/dev: $(VENV)/ready
	@echo "packages for tests and checks (about 110 MB to download the first time)"
	@$(PIP) --editable '.[dev]'
	@touch $@

demo: $(VENV)/ready ## show placements on an embedded cluster (ARGS=--once: a check without a show; ARGS=--keep: it goes on)
	@$(BIN)/vgpu-scheduler demo $(ARGS)

assets: ## build what the tests run beside the operator, once: the real API server, kubectl, Helm, controllers of jobs, Kueue, koordlet's hooks (21 minutes; needs Go)
	@tests/apiserver/build.sh kubernetes helm controllers kueue koordlet > /dev/null || [ $$? = 3 ]

debian-image: ## run the Dockerfile on Debian's packages, once for each state of it, for its tests (4 minutes; needs root)
	@.ci/debian-image.sh > /dev/null || [ $$? = 3 ]

test: $(VENV)/dev $(if $(ARGS),,assets) ## run the tests that find what a change breaks, on a real API server where Go can build it (ARGS=tests/kube: some)
ifneq ($(ARGS),)
	@$(BIN)/pytest $(ARGS)
else
	@$(BIN)/python -m tests short
endif

test-pure: $(VENV)/dev ## run those of them that need neither an API server nor processes of their own
	@$(BIN)/python -m tests pure $(ARGS)

test-long: $(VENV)/dev assets debian-image ## run the others: faults, fuzzing, simulation, failover, the image, and an older API server
	@$(BIN)/python -m tests long $(ARGS)
	@$(MAKE) --no-print-directory older

test-all: test test-long ## run all tests

lint: $(VENV)/dev ## check style, types, the arrows between rooms, workflows, links, and that rendered files are current
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@.ci/actionlint.sh
	@$(BIN)/python crds/render.py --check
	@$(BIN)/python manifests/render.py --check
	@$(BIN)/python -m charts.render --check
	@$(BIN)/python docs/render.py --check
	@$(BIN)/python docs/links.py

format: $(VENV)/dev ## format the code
	@$(BIN)/ruff format --quiet .
	@$(BIN)/ruff check --fix --quiet .

vectors: $(VENV)/dev ## run the golden vectors under DIR (tests/vectors)
	@$(BIN)/python -m tests.golden $(DIR)

bench: $(VENV)/dev ## measure, and write docs/performance.md
	@$(BIN)/python -m benchmarks $(ARGS)
	@$(BIN)/python docs/render.py

e2e: $(VENV)/dev ## run the end-to-end tests only
	@$(BIN)/pytest -m e2e $(ARGS)

older: $(VENV)/dev ## run the end-to-end tests on an API server that does less
	@tests/apiserver/build.sh kubernetes older > /dev/null || [ $$? = 3 ]
	@APISERVER=older $(BIN)/python -m tests older $(ARGS)

faults: $(VENV)/dev ## play all faults on the operator, and write docs/faults.md (ARGS="--times 20")
	@$(BIN)/python -m tests.faults $(ARGS)

manifests: $(VENV)/dev ## render the CRDs, the admission rules, manifests/install.yaml, the chart, and the pages in docs that follow from code
	@$(BIN)/python crds/render.py
	@$(BIN)/python manifests/render.py
	@$(BIN)/python -m charts.render
	@$(BIN)/python docs/render.py

picture: $(VENV)/dev ## play the demo, and draw docs/demo.svg from what it showed
	@$(BIN)/python docs/picture.py

screenshots: $(VENV)/dev ## draw what a browser shows of the demo's cluster into docs/ui; that takes apt-get install chromium
	@$(BIN)/python docs/ui_pictures.py

docs: $(VENV)/dev ## build the documentation as a site in build/docs, strictly
	@$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[docs]'
	@$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going --conf-dir docs . build/docs
	@echo '<meta http-equiv="refresh" content="0; url=docs/">' > build/docs/index.html

image: ## build the image for amd64 and arm64 (ARGS="--tag REGISTRY/vgpu-scheduler:VERSION --push")
	@docker buildx build --platform linux/amd64,linux/arm64 $(ARGS) .

bundle: $(VENV)/dev ## make one archive for clusters without internet, in dist (ARGS="--machine aarch64")
	@$(BIN)/python .ci/bundle.py $(ARGS)

clean: ## remove what was built in the tree
	rm -rf .venv* build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	find . -name '*.egg-info' -type d -prune -exec rm -rf {} +
