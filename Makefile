# Every target works in a fresh clone that has Python 3.11 or newer with venv. `make help` lists them.
PYTHON ?= $(shell python3 tests/pythons/find.py)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.berth-setup

.DEFAULT_GOAL := help
.PHONY: help setup demo tour test check unit controlplane browser vectors mutants reference site manifests schemas chart-versions e2e e2e-programs sbom image image-digest packages archive krew release-notes pictures clean lock evictor-scale beside differential as-created replay bench bench-ceiling bench-trace bench-scale hostile whole storm soak older

help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  \033[1m%-14s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Berth needs Python 3.11 or newer; set PYTHON=… (found %s)" % sys.version.split()[0])'
	@echo "Setting up $(VENV) (about half a minute)"
	@test "$$($(BIN)/python -V 2>&1)" = "$$($(PYTHON) -V 2>&1)" || rm -rf $(VENV) # one of another version can't be reused
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r requirements.lock
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-compile --no-deps --no-build-isolation -e .
	@touch $@

setup: $(STAMP) ## Make .venv with Berth and everything it needs

demo: $(STAMP) ## A guided tour: a small cluster, real HTTP, the real scheduler, under 30 seconds
	@$(BIN)/berth demo

tour: $(STAMP) ## One pod through the code, for newcomers: every stop with file, line and what happened there
	@$(BIN)/python -m bench.tour

test: $(STAMP) controlplane e2e-programs browser ## Everything CI runs: all tests on the image's Python where it is here, the fast ones on the oldest and newest others
	@$(BIN)/python -m tests.parts

check: $(STAMP) ## Lint, types and layers
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check -q .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

unit: $(STAMP) ## The fast tests only: no real control plane
	@$(BIN)/pytest -q -m "not real"

controlplane: $(STAMP) ## Build etcd, kube-apiserver, kube-scheduler, kubectl, Helm, kubeconform and promtool from their Go modules, once
	@$(BIN)/python -m tests.controlplane.build || test $$? -eq 3
	@$(BIN)/python -m tests.chart.build || test $$? -eq 3

browser: $(STAMP) ## Get a Chromium for the tests of pages, once; nothing on the machine changes
	@$(BIN)/python -m tests.browser.install || test $$? -eq 3

e2e-programs: $(STAMP) controlplane ## Build Kubernetes' end-to-end tests, controller manager and kwok from their Go modules, once
	@$(BIN)/python -m tests.e2e.build || test $$? -eq 3

e2e: $(STAMP) e2e-programs ## Kubernetes' own end-to-end tests, with kube-scheduler and with Berth: make e2e SUITE=predicates,dra ALONE=1 RECORD=1
	@$(BIN)/python -m tests.e2e $(if $(SUITE),--suites $(SUITE)) $(if $(ALONE),--berth-alone) $(if $(RECORD),--record)

beside: $(STAMP) e2e-programs ## Berth beside Kueue, Karpenter's code, the descheduler and an OpenTelemetry Collector, built from their Go modules, once: make beside RECORD=1
	@BERTH_RECORD_KUEUE=$(RECORD) $(BIN)/pytest -q tests/integration/beside

evictor-scale: $(STAMP) controlplane ## The evictor at its goal: 2,000 nodes, 20,000 pods, a real API server (some minutes)
	@BERTH_EVICTOR_NODES=2000 $(BIN)/pytest -q -s tests/integration/test_evictor.py -k relabel
	@$(BIN)/python -m bench.eviction

bench: $(STAMP) controlplane ## kube-scheduler, Berth and a bare binder on every workload: make bench WORKLOADS=basic,affinity SCALE=0.2 RECORD=1
	@$(BIN)/python -m bench $(if $(WORKLOADS),--workloads $(WORKLOADS)) $(if $(SCALE),--scale $(SCALE)) $(if $(PODS),--pods $(PODS)) $(if $(QUICK),--quick) $(if $(SHORT),--short) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(RUNS),--runs $(RUNS)) $(if $(RECORD),--record)

bench-ceiling: $(STAMP) controlplane ## The same on an API server that does almost nothing: make bench-ceiling WORKLOADS=basic,affinity SHORT=1 RECORD=1
	@$(BIN)/python -m bench --ceiling $(if $(WORKLOADS),--workloads $(WORKLOADS)) $(if $(SCALE),--scale $(SCALE)) $(if $(PODS),--pods $(PODS)) $(if $(QUICK),--quick) $(if $(SHORT),--short) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(RUNS),--runs $(RUNS)) $(if $(RECORD),--record)

bench-trace: $(STAMP) controlplane ## Placement quality on a trace, kube-scheduler beside it: make bench-trace TRACE=path RECORD=1
	@$(BIN)/python -m bench.trace $(TRACE) $(if $(RECORD),--record)

bench-scale: $(STAMP) ## The engine alone, up to 50,000 nodes and 500,000 pods: make bench-scale RECORD=1
	@$(BIN)/python -m bench.scale $(if $(RECORD),--record)

hostile: $(STAMP) controlplane ## What legal objects at their largest cost, each with its bound: make hostile ROWS=anti PARTS=scheduler SEARCH=minutes RECORD=1
	@$(BIN)/python -m bench.hostile $(if $(PARTS),--parts $(PARTS)) $(if $(ROWS),--rows $(ROWS)) $(if $(SEARCH),--search $(SEARCH)) $(if $(RECORD),--record)

whole: $(STAMP) ## Each limit of a pod at its maximum, alone and 1,000 in a row, and how long others wait: make whole ROWS=affinity
	@$(BIN)/python -m bench.whole $(if $(ROWS),--rows $(ROWS))

storm: $(STAMP) ## A simulated week: berth run in a world that lies, delays and dies, by seed, going on where it was ended: make storm SEEDS=0-9999 MUTANTS=1
	@$(BIN)/python -m tests.storm $(if $(SEEDS),--seeds $(SEEDS)) $(if $(MUTANTS),--mutants) $(if $(TRACE),--trace) $(if $(AGAIN),--again)

soak: $(STAMP) controlplane ## Mixed churn on a real API server, and what memory, descriptors and caches come to: make soak MINUTES=60
	@$(BIN)/python -m bench.soak --minutes $(or $(MINUTES),10)

OLDER = admission cold_replica evictor held_loop heartbeat lost_answers lost_events mid_cycle nodes operator outages plugins pods policies policy_crd restart rolling_restart rotations start two_at_once volumes
# These releases have resource.k8s.io/v1, so Berth schedules pods with devices there.
OLDER += $(if $(filter 1.34 1.35 1.36,$(VERSION)),devices devices_takeover)
older: $(STAMP) controlplane ## Tests with an older kube-apiserver, which is built once: make older VERSION=1.32 TESTS=tests/integration/test_pods.py
	@assets=$$($(BIN)/python -m tests.controlplane.older $(or $(VERSION),1.32)) && KUBEBUILDER_ASSETS="$$assets" $(BIN)/pytest -q -m "not newest" $(or $(TESTS),$(OLDER:%=tests/integration/test_%.py))

vectors: $(STAMP) ## Compare decisions with 1,315 recorded answers of the real plugins (tests/vectors)
	@$(BIN)/pytest -q tests/conformance/test_vectors.py

mutants: $(STAMP) ## How many small changes of the code the tests notice: make mutants ROOMS="plugins policy" SAMPLE=300
	@$(BIN)/python -m tests.mutants $(ROOMS) $(if $(SAMPLE),--sample $(SAMPLE))

reference: $(STAMP) ## Write docs/reference/ from the code and the CRD
	@$(BIN)/python -m docs.reference.fields
	@$(BIN)/python docs/reference/make.py
	@$(BIN)/python docs/reference/binding_cycle.py

MKDOCS = PATH="$$PWD/$(BIN):$$PATH" NO_MKDOCS_2_WARNING=1
site: $(STAMP) ## The site of docs/, in build/site; or a version of it, committed to the branch gh-pages: make site VERSION=0.1 [ALIAS=latest] [PUSH=1]
	@$(MKDOCS) $(if $(VERSION),mike deploy -F site/mkdocs.yml $(if $(PUSH),--push) --update-aliases $(VERSION) $(or $(ALIAS),latest),mkdocs build -q -f site/mkdocs.yml)
	@$(if $(VERSION),$(MKDOCS) mike set-default -F site/mkdocs.yml $(if $(PUSH),--push) $(or $(ALIAS),latest))

differential: $(STAMP) ## Berth against kube-scheduler's own plugins on generated cases: make differential SEEDS=0-199
	@$(BIN)/python -m tests.differential.fuzz --seeds $(or $(SEEDS),0-199)

as-created: $(STAMP) e2e-programs ## Generated files: what simulate says, and what a real cluster makes of them: make as-created SEEDS=0-499
	@$(BIN)/python -m tests.as_created --seeds $(or $(SEEDS),0-49)

replay: $(STAMP) ## kube-scheduler's decisions on 2,000 mixed pods, each put to Berth in its state: make replay PODS=2000
	@$(BIN)/python -m bench.replay --pods $(or $(PODS),2000)

manifests: $(STAMP) ## Write manifests/ from the chart, and what else says how the CRD and the configuration are, and the chart's README from its values
	@$$($(BIN)/python -m tests.chart.build helm_docs) --chart-search-root helm --log-level warning
	@helm=$$($(BIN)/python -m tests.chart.build helm) && $(BIN)/python manifests/make.py "$$helm"
	@$(BIN)/python docs/schemas/make.py && $(BIN)/python -m docs.reference.fields

schemas: $(STAMP) ## Write the schemas for editors from the code and the CRD, and the types of the API from the OpenAPI documents of the supported versions
	@$(BIN)/python docs/schemas/make.py
	@$(BIN)/python -m tests.controlplane.schemas

chart-versions: $(STAMP) ## Check the chart's objects by kubeconform for Kubernetes 1.32 to 1.37
	@$(BIN)/python -m tests.chart.versions

packages: $(STAMP) ## Wheel and source distribution, in dist/
	@$(BIN)/python -m hatchling build -d dist

archive: $(STAMP) ## The kubectl plugin with all that it needs, for this platform, in dist/
	@PYTHONHASHSEED=1 $(BIN)/pyinstaller --noconfirm --log-level WARN --distpath build/archive --workpath build/pyinstaller packaging/kubectl-berth.spec
	@build/archive/kubectl-berth/kubectl-berth explain --pending -A --cluster examples/cookbook/dump.yaml > build/archive/said.txt || test $$? -eq 1
	@$(BIN)/python packaging/release.py archive build/archive/kubectl-berth

krew: ## The krew manifest of the archives in dist/, there
	@$(PYTHON) packaging/release.py krew

release-notes: ## The changelog's section of a tag, in dist/notes.md: make release-notes TAG=v0.1.0
	@$(PYTHON) packaging/release.py notes $(TAG)

pictures: $(STAMP) ## Draw the README's pictures from real output
	@$(BIN)/python docs/pictures/make.py

LOCK = $(VENV)/lock/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links
lock: ## Resolve requirements*.lock from pyproject.toml
	@$(PYTHON) -m venv $(VENV)/lock && $(VENV)/lock/bin/pip install --quiet uv
	@$(VENV)/lock/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --no-emit-find-links \
		--extra dask --extra fast --extra lab --extra otel --extra record --group dev --group site pyproject.toml -o requirements.lock
	@$(LOCK) --extra fast --extra record -c requirements.lock pyproject.toml -o image/run.lock
	@printf 'hatchling\nuv\n' | $(LOCK) -c requirements.lock - -o image/build.lock

sbom: ## A bill of materials of the image's Python packages (CycloneDX), in dist/
	@$(PYTHON) -m venv $(VENV)/sbom && $(VENV)/sbom/bin/pip install --quiet --disable-pip-version-check 'cyclonedx-bom~=7.5'
	@mkdir -p dist && $(VENV)/sbom/bin/cyclonedx-py requirements --pyproject pyproject.toml --mc-type application \
		--output-reproducible --of JSON -o dist/berth.cdx.json image/run.lock && echo dist/berth.cdx.json

PLATFORMS ?= linux/amd64,linux/arm64
image: ## Build the image with buildx: make image IMAGE=name:tag [PUSH=1] [PYTHON_IMAGE=python:…@sha256:…]
	@mkdir -p dist && docker buildx build --platform $(PLATFORMS) --sbom=true --provenance=mode=max --metadata-file dist/image.json \
		$(if $(PUSH),--push) $(if $(PYTHON_IMAGE),--build-arg PYTHON_IMAGE=$(PYTHON_IMAGE)) \
		--build-arg VERSION=$$(sed -n 's/^__version__ = "\(.*\)"/\1/p' scheduler/podberth/__init__.py) \
		--build-arg REVISION=$$(git rev-parse HEAD) -t $(or $(IMAGE),berth) .

image-digest: ## What the base image's tag means now, to be pinned in the Dockerfile
	@tag=$$(sed -n 's/^ARG PYTHON_IMAGE=//p' Dockerfile) && echo "$${tag%@*}@$$(docker buildx imagetools inspect "$${tag%@*}" --format '{{.Manifest.Digest}}')"

clean: ## Remove what the targets made
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist berth-demo.html
