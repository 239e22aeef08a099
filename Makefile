# Everything a developer runs. Needs Go, make and git; the rest is built from Go
# modules into bin/.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL: # go uses all cores by itself, and test is a sequence

# Arguments for what a target runs: make up ARGS="--demo".
ARGS ?=
# How long `make fuzz` spends on each target.
FUZZTIME ?= 20s
# Options for `go test`: make test TESTFLAGS="-run Restart -v".
TESTFLAGS ?=
# Of `make chaos`: what fixes load and faults, which faults, for how long.
SEED ?= 1
FAULTS ?= all
DURATION ?= 5m
# Of `make release`; hack/release.sh says what they mean.
export VERSION PLATFORMS PROGRAMS SIGNING_KEY COSIGN_KEY

# One setting for builds, vet, staticcheck and tests, so that they share Go's
# cache; only the race detector needs cgo.
export CGO_ENABLED := 0
# Tests find the control plane here.
export TANGRAM_BIN := $(CURDIR)/bin

# Packages without goroutines need no race detector: core must not have any
# (archtest), and the others are values. Some tests of publish are too long for it.
PURE := ./api/... ./core/... ./config/... ./examples/... ./monitoring/... ./hack/... ./internal/agent/publish ./test/await ./test/cluster
CONCURRENT := ./internal/... ./cmd/... ./test/property/...
# End-to-end tests drive programs and ask from outside: the race detector would see
# only the tests. Those that run the scheduler's code in the test itself have it.
SCENARIO := ./test/scenario/...
E2E := ./test/e2e/...
FEATURES := ./test/chart/... ./test/metrics/... ./test/monitoring/... ./test/recovery/... ./test/state/... ./test/tenants/...
# What people see and ask with.
SEE := ./test/cli/... ./test/diagnose/... ./test/query/... ./test/web/... ./test/whatif/... ./test/why/...
# With the operators that people use, and what they share GPUs with.
ECOSYSTEM := ./test/autoscale/... ./test/dra/... ./test/examples/... ./test/kubeflow/... ./test/kueue/... ./test/multikueue/... ./test/operators/... ./test/words/...
CHAOS := ./test/chaos/... ./test/devicemanager/...
NODE := ./test/node/... ./test/agent/...
# Tests that measure shares or compare times, or have leases so short that a busy machine
# ends them. They run before the others of their packages.
MEASURING := TestFairShares|TestFairSharesInATree|TestGangPreemptionKilled|TestHoleNoNodeMatches|TestHoleOtherResources|TestRestartKeepsShares
MEASURED := ./test/e2e ./test/state

# The race detector needs a C compiler. A machine without one still runs every
# test; CI has one.
CC := $(firstword $(shell go env CC))
RACE := $(if $(shell command -v $(CC)),-race)
# Tests, and what they build and start, collect garbage less often than Go does by itself:
# most of it lives for seconds, and an eighth of all processor time went there.
GOTEST := GOGC=400 hack/gotest.sh -shuffle=on $(TESTFLAGS)
# The race detector sleeps for a second at the end of every package, for goroutines that
# go on behind the tests' backs; a twentieth shows them, too.
GOTEST_RACE := GORACE=atexit_sleep_ms=50 CGO_ENABLED=$(if $(RACE),1,0) $(GOTEST) $(RACE)
# A test on a cluster that fails on a busy machine runs once more, and is reported.
AGAIN := GOGC=400 hack/gotest.sh --again -shuffle=on $(TESTFLAGS) -count=1
# Whoever asks for certain tests gets those, wherever they run.
ASKED := $(findstring -run,$(TESTFLAGS))

.PHONY: help
help: ## Show this list.
	@awk -F ':.*## ' '/^##@ / { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z0-9-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

##@ Use:

.PHONY: build
build: controlplane tangram ## Build every program into bin/ that is missing or out of date.

.PHONY: up
up: build $(if $(findstring --monitoring,$(ARGS)),monitoring) ## Start a local cluster with simulated GPUs; ARGS="--demo --monitoring" adds workloads and Prometheus.
	@names=$$(sed -nE 's/.*--operators[= ]([a-z,-]+).*/\1/p' <<<"$(ARGS)"); \
		if [[ -n $$names ]]; then hack/build.sh operators $${names//,/ }; fi
	@bin/tangram up $(ARGS)

.PHONY: down
down: ## End a cluster that was started with ARGS="--detach".
	@bin/tangram down $(ARGS)

.PHONY: bench
bench: build ## Measure Tangram against kube-scheduler and the API's ceiling, side by side.
	@bin/tangram bench $(ARGS)

.PHONY: clean
clean: ## Remove bin/; Go's caches stay.
	rm -rf bin

##@ Change:

.PHONY: test
test: lint build unit e2e ## Run everything: linters, build, unit tests, end-to-end tests.

.PHONY: unit
unit: ## Run the tests that need no cluster.
	$(GOTEST) $(PURE)
	@$(if $(RACE),,echo "no C compiler ($(CC)): tests run without the race detector")
	$(GOTEST_RACE) $(CONCURRENT)

.PHONY: e2e
e2e: build node monitoring helm operators browser ## Run the end-to-end tests on a real control plane.
	GORACE=atexit_sleep_ms=50 CGO_ENABLED=$(if $(RACE),1,0) $(AGAIN) $(RACE) -timeout 15m $(SCENARIO)
	$(if $(ASKED),,$(AGAIN) -p 2 -timeout 15m -run '^($(MEASURING))$$' $(MEASURED))
	@# Alone: their time limits are not for a machine that runs another cluster.
	$(AGAIN) -p 1 -timeout 10m $(CHAOS)
	@# They mostly wait, so more of them at once than there are processors; the longest first.
	$(AGAIN) -p 3 -parallel 3 -timeout 30m $(if $(ASKED),,-skip '^($(MEASURING))$$') $(E2E) $(NODE) $(ECOSYSTEM) $(FEATURES) $(SEE)

.PHONY: race
race: build ## Run all tests, end-to-end ones included, under the race detector.
	CGO_ENABLED=1 $(GOTEST) -race -timeout 40m ./...

.PHONY: chaos
chaos: build ## Run load and faults, judged from outside: SEED=1 FAULTS=all DURATION=5m.
	go run ./test/chaos/run -seed=$(SEED) -faults=$(FAULTS) -duration=$(DURATION) $(ARGS)

.PHONY: scenarios
scenarios: build ## Run the scenario files on every engine; ARGS=-rewrite accepts new output.
	$(GOTEST_RACE) ./test/scenario $(ARGS)

.PHONY: chart
chart: build helm ## Test the chart and the release; ARGS=-update accepts new output.
	$(GOTEST) -count=1 ./test/chart $(ARGS)

.PHONY: release
release: helm ## Make dist/VERSION: VERSION=v0.2.0 [PLATFORMS="linux/amd64"] [SIGNING_KEY=FILE].
	@hack/release.sh

.PHONY: site
site: ## Make a site of the documentation in dist/site, to read from the disk.
	go -C hack/site test .
	go -C hack/site run . "$(CURDIR)" "$(CURDIR)/dist/site"

.PHONY: fuzz
fuzz: ## Fuzz every parser for FUZZTIME each.
	hack/fuzz.sh $(FUZZTIME)

.PHONY: lint
lint: tools ## Check format, vet, staticcheck and the dependency rule.
	@GOGC=400 hack/lint.sh

.PHONY: generate
generate: tools ## Regenerate deepcopy functions, CRDs (ours and Volcano's), dashboards.
	hack/generate.sh .

.PHONY: verify
verify: lint ## Lint, and check that generated files and go.mod are up to date.
	@hack/verify.sh

# Steps of build, for other targets.
.PHONY: controlplane node tools monitoring helm operators browser tangram
controlplane node tools monitoring helm operators browser tangram:
	@hack/build.sh $@
