# Everything runs in a virtual environment of its own (.venv) with pinned packages; what takes long to build is cached
# outside the tree, under $XDG_CACHE_HOME/vgpu-scheduler.
SHELL := /bin/bash
PYTHON ?= python3
BIN := .venv/bin
ARGS ?=
DIR ?= tests/vectors

.DEFAULT_GOAL := help
.PHONY: help demo test lint format vectors bench e2e older faults manifests picture docs image bundle clean

help: ## explain the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.venv/ready: pyproject.toml constraints.txt
	@echo "environment 1/3: virtual environment in .venv"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed (set PYTHON=...)"; exit 1; }
	@$(PYTHON) -m venv .venv
	@echo "environment 2/3: packages (about 120 MB to download the first time)"
	@$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@echo "environment 3/3: compiling the kernels"
	@$(BIN)/python -c 'from vgpu_scheduler.runtime.warmup import warm_up; warm_up()'
	@touch $@

demo: .venv/ready ## show placements on an embedded cluster (ARGS=--once: a check without a show; ARGS=--keep: it goes on)
	@$(BIN)/vgpu-scheduler demo $(ARGS)

test: .venv/ready ## run all test suites, on a real API server where Go can build it (ARGS=tests/kube: some)
ifneq ($(ARGS),)
	@$(BIN)/pytest $(ARGS)
else
	@echo "tests 1/2: what needs neither an API server nor processes, on several cores (each worker takes about a GB)"
	@$(BIN)/pytest -m "not apiserver and not e2e" --numprocesses auto --maxprocesses 4; first=$$?; \
	  [ $$first -le 1 ] || exit $$first; \
	  echo "tests 2/2: on the real API server, and with the operator as a process, one after the other"; \
	  $(BIN)/pytest -m "apiserver or e2e" || exit $$?; \
	  [ $$first = 0 ] || echo "tests 1/2 failed, see above"; exit $$first
endif

lint: .venv/ready ## check style, types, the arrows between rooms, links, and that rendered files are current
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python crds/render.py --check
	@$(BIN)/python manifests/render.py --check
	@$(BIN)/python -m charts.render --check
	@$(BIN)/python docs/render.py --check
	@$(BIN)/python docs/links.py

format: .venv/ready ## format the code
	@$(BIN)/ruff format --quiet .
	@$(BIN)/ruff check --fix --quiet .

vectors: .venv/ready ## run the golden vectors under DIR (tests/vectors)
	@$(BIN)/python -m tests.golden $(DIR)

bench: .venv/ready ## measure, and write docs/performance.md
	@$(BIN)/python -m benchmarks $(ARGS)
	@$(BIN)/python docs/render.py

e2e: .venv/ready ## run the end-to-end tests only
	@$(BIN)/pytest -m e2e $(ARGS)

older: .venv/ready ## run the end-to-end tests on an API server that does less
	@APISERVER=older $(BIN)/pytest tests/e2e $(ARGS)

faults: .venv/ready ## play all faults on the operator, and write docs/faults.md (ARGS="--times 20")
	@$(BIN)/python -m tests.faults $(ARGS)

manifests: .venv/ready ## render the CRDs, the admission rules, manifests/install.yaml, the chart, and the pages in docs that follow from code
	@$(BIN)/python crds/render.py
	@$(BIN)/python manifests/render.py
	@$(BIN)/python -m charts.render
	@$(BIN)/python docs/render.py

picture: .venv/ready ## play the demo, and draw docs/demo.svg from what it showed
	@$(BIN)/python docs/picture.py

docs: .venv/ready ## build the documentation as a site in build/docs, strictly
	@$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[docs]'
	@$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going --conf-dir docs . build/docs
	@echo '<meta http-equiv="refresh" content="0; url=docs/">' > build/docs/index.html

image: ## build the image for amd64 and arm64 (ARGS="--tag REGISTRY/vgpu-scheduler:VERSION --push")
	@docker buildx build --platform linux/amd64,linux/arm64 $(ARGS) .

bundle: .venv/ready ## make one archive for clusters without internet, in dist (ARGS="--machine aarch64")
	@$(BIN)/python .ci/bundle.py $(ARGS)

clean: ## remove what was built in the tree
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	find . -name '*.egg-info' -type d -prune -exec rm -rf {} +
