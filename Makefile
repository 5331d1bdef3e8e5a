# Every target works in a fresh clone that has Python 3.11 or newer with venv. `make help` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.berth-setup

.DEFAULT_GOAL := help
.PHONY: help setup demo test check unit controlplane vectors reference pictures clean lock evictor-scale differential replay bench bench-trace bench-scale

help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  \033[1m%-14s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Berth needs Python 3.11 or newer; set PYTHON=… (found %s)" % sys.version.split()[0])'
	@echo "Setting up $(VENV) (about half a minute)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

setup: $(STAMP) ## Make .venv with Berth and everything it needs

demo: $(STAMP) ## A guided tour: a small cluster, real HTTP, the real scheduler, under 30 seconds
	@$(BIN)/berth demo

test: check controlplane ## Everything CI runs: checks, unit, conformance, contract, integration on a real control plane
	@$(BIN)/pytest -q

check: $(STAMP) ## Lint, types and layers
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check -q .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

unit: $(STAMP) ## The fast tests only: no real control plane
	@$(BIN)/pytest -q -m "not real"

controlplane: $(STAMP) ## Build etcd, kube-apiserver, kube-scheduler and kubectl from their Go modules, once
	@$(BIN)/python -m tests.controlplane.build || test $$? -eq 3

evictor-scale: $(STAMP) controlplane ## The evictor at its goal: 2,000 nodes, 20,000 pods, a real API server (some minutes)
	@BERTH_EVICTOR_NODES=2000 $(BIN)/pytest -q -s tests/integration/test_evictor.py -k relabel
	@$(BIN)/python -m bench.eviction

bench: $(STAMP) controlplane ## kube-scheduler, Berth and a bare binder on every workload: make bench WORKLOADS=basic,affinity SCALE=0.2 RECORD=1
	@$(BIN)/python -m bench $(if $(WORKLOADS),--workloads $(WORKLOADS)) $(if $(SCALE),--scale $(SCALE)) $(if $(PODS),--pods $(PODS)) $(if $(RECORD),--record)

bench-trace: $(STAMP) controlplane ## Placement quality on a trace, kube-scheduler beside it: make bench-trace TRACE=path RECORD=1
	@$(BIN)/python -m bench.trace $(TRACE) $(if $(RECORD),--record)

bench-scale: $(STAMP) ## The engine alone, up to 50,000 nodes and 500,000 pods: make bench-scale RECORD=1
	@$(BIN)/python -m bench.scale $(if $(RECORD),--record)

vectors: $(STAMP) ## Compare decisions with the real plugins' answers: make vectors VECTORS=path
	@$(BIN)/pytest -q tests/conformance

reference: $(STAMP) ## Write docs/metrics.md anew from the code
	@$(BIN)/python docs/reference/make.py

differential: $(STAMP) ## Berth against kube-scheduler's own plugins on generated cases: make differential SEEDS=0-199
	@$(BIN)/python -m tests.differential.fuzz --seeds $(or $(SEEDS),0-199)

replay: $(STAMP) ## kube-scheduler's decisions on 2,000 mixed pods, each put to Berth in its state: make replay PODS=2000
	@$(BIN)/python -m bench.replay --pods $(or $(PODS),2000)

pictures: $(STAMP) ## Draw the README's pictures anew from real output
	@$(BIN)/python docs/pictures/make.py

lock: ## Resolve requirements.lock anew from pyproject.toml
	@$(PYTHON) -m venv $(VENV)/lock && $(VENV)/lock/bin/pip install --quiet uv
	@$(VENV)/lock/bin/uv pip compile -q --universal --generate-hashes --no-header --no-emit-index-url --no-emit-find-links \
		--extra fast --group dev pyproject.toml -o requirements.lock

clean: ## Remove what the targets made
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis dist berth-demo.html
