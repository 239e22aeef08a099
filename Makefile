# Everything a developer runs. Needs Go, make and git; the rest is built from Go
# modules into bin/.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL: # go uses all cores by itself

# Arguments for what a target runs: make up ARGS="--demo".
ARGS ?=
# How long `make fuzz` spends on each target.
FUZZTIME ?= 20s
# Options for go test: make test TESTFLAGS="-run Restart -v".
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

# The stages of the tests are in hack/testrun/stages.go; `make stages` lists them. Behind --
# come options for go test.
TESTRUN = go build -o bin/testrun ./hack/testrun && bin/testrun $(1)$(if $(TESTFLAGS), -- $(TESTFLAGS))
# Tests on a machine without a C compiler run without the race detector, and say so.
RACE := $(if $(shell command -v $(firstword $(shell go env CC))),-race)

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
test: ## Run what needs no programs beyond the control plane: linters, units, races, scenarios, end-to-end tests.
	@$(call TESTRUN,test)

.PHONY: test-all
test-all: ## Run the rest: kubelet, containerd, Prometheus, helm, operators, a browser, chaos.
	@$(call TESTRUN,test-all)

.PHONY: unit
unit: ## Run the tests that need no cluster.
	@$(call TESTRUN,unit race)

.PHONY: e2e
e2e: ## Run the end-to-end tests of make test.
	@$(call TESTRUN,scenario e2e)

.PHONY: stages
stages: ## List the stages of test and test-all; bin/testrun STAGE... runs some.
	@go build -o bin/testrun ./hack/testrun && bin/testrun -list

.PHONY: race
race: build ## Run all tests, end-to-end ones included, under the race detector.
	CGO_ENABLED=1 go test -race -timeout 40m $(TESTFLAGS) ./...

.PHONY: chaos
chaos: build ## Run load and faults, judged from outside: SEED=1 FAULTS=all DURATION=5m.
	go run ./test/chaos/run -seed=$(SEED) -faults=$(FAULTS) -duration=$(DURATION) $(ARGS)

.PHONY: scenarios
scenarios: build ## Run the scenario files on every engine; ARGS=-rewrite accepts new output.
	CGO_ENABLED=$(if $(RACE),1,0) go test $(RACE) -timeout 15m ./test/scenario $(TESTFLAGS) $(ARGS)

.PHONY: golden
golden: ## Compare every figure of the simulators: TRACES=dir adds the public traces; ARGS=-update accepts new figures.
	TANGRAM_TRACES=$(if $(TRACES),$(abspath $(TRACES))) go test -count=1 -v -timeout 30m -run Golden ./lab/sim -args $(ARGS)

.PHONY: chart
chart: build helm ## Test the chart and the release; ARGS=-update accepts new output.
	go test -count=1 ./test/chart $(TESTFLAGS) $(ARGS)

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
lint: linters ## Check format, vet, staticcheck and the dependency rule.
	@GOGC=$${GOGC:-400} hack/lint.sh

.PHONY: golangci
golangci: ## Run more linters (.golangci.yaml); ARGS=--fix mends what they can.
	@hack/build.sh golangci
	@GOGC=$${GOGC:-400} bin/golangci-lint run $(ARGS) ./...

.PHONY: methods
methods: ## Show the types with the most methods, and their limits.
	@go test -count=1 -run '^TestMethods$$' -v ./test/archtest | grep -v '^=== '

.PHONY: lines
lines: ## Show how many lines product, laboratory and tests have.
	@go test -count=1 -run '^TestLines$$' -v ./test/archtest | grep -v '^=== '

.PHONY: generate
generate: tools ## Regenerate deepcopy functions, CRDs (ours and Volcano's), dashboards.
	hack/generate.sh .

.PHONY: verify
verify: lint tools ## Lint, and check generated files, go.mod and the subjects of commits.
	@hack/verify.sh

# Steps of build, for other targets.
.PHONY: controlplane node linters tools monitoring helm operators browser tangram
controlplane node linters tools monitoring helm operators browser tangram:
	@hack/build.sh $@
