# celvpa: `make help` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# Static builds need no C compiler, and share their cache with the lab's.
export CGO_ENABLED ?= 0

NAME ?= celvpa

# Folders given by the user are relative to where make runs.
ifdef LAB_PARTS
export LAB_PARTS := $(abspath $(LAB_PARTS))
endif
ifdef LAB_DIR
export LAB_DIR := $(abspath $(LAB_DIR))
endif
STATICCHECK := bin/staticcheck-v0.8.2
LAB := go run -C conformance/lab .
BENCH := bin/bench

# A comma would end an argument of $(or …).
SIZES := 100,1000,10000,50000

.PHONY: help
help: ## Show this list
	@grep -hE '^[a-z][a-z-]*:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-16s %s\n", $$1, $$2}'
	@echo
	@echo '  Variables: NAME=lab-name  ONCE=1 (make run ends when all was seen)  DEADLINE=5m  LONG=1 (make test-all also tries more seeds, fuzzes, and detects races)  BUSY=1 or BUSY=unit (make test, test-all and test-unit: on a busy machine)  MANY=1 (make test-unit: all random cases)  RULES_DIR=folder'
	@echo '             PROGRAMS=upstream,celvpa (make bench-recommender, bench-pods and bench-updater)  PIPELINE=follow (make bench-…: what celvpa decides by)  CHECK=1 (make bench-… fails if a target is missed)'
	@echo '             SCALE=50000, MINUTES=60 and COMPONENTS=recommender,updater (make bench-scale)  NOTE=text (make sizing: what the page is to say of the machine)'
	@echo '             DURATION=20m, SCALE=50 and SEED=1 (make soak)'
	@echo '             TRACES=folder of GWA-T-12, VMS=tune, decide or all, RULES="folder folder" and OUTPUT=json (make bench-quality)'
	@echo '             VERSION=v1.2.3 (make release, image, image-push)  REPOSITORY=registry/team and INSECURE=1 (make image-push)'
	@echo '             WEBHOOK_ADDRESS=host  KUBECONFIG=file (make run uses this cluster)  LAB_PARTS=folder with prebuilt programs'
	@echo '             PATIENCE=5m, BESIDE=1, TESTS=regexp and LOAD_IMAGE=command (make test-node: how long a step may take, celvpa beside the node, which tests, and what imports an image archive into the node of KUBECONFIG)'

.PHONY: run
run: need-go ## Show celvpa at work on a lab, or on the cluster of KUBECONFIG; Ctrl-C stops what it started
	@echo "building the quickstart (about 2 minutes the first time, seconds once compiled)"
	@go build -o bin/quickstart-run ./conformance/quickstart
	@exec bin/quickstart-run -lab $(NAME) $(if $(ONCE),-once) $(if $(DEADLINE),-deadline $(DEADLINE)) \
	  $(if $(RULES_DIR),-rules-dir $(RULES_DIR)) $(if $(WEBHOOK_ADDRESS),-webhook-address $(WEBHOOK_ADDRESS))

# Modules beside the root.
MODULES := conformance/lab conformance/upstream conformance/chart release

# Parts of make test and what make test-all adds; those that take longest come first.
UNIT := test-unit-root test-unit-upstream test-unit-lab
LABS := test-integration test-faults chart-test test-node-vm test-monitoring
REST := test-release page-test
# Two parts at a time, and on labs, where tests mostly wait, three; with LONG=1, which takes several times the CPU, one.
BUSY_UNIT := $(if $(BUSY),busy:)
BUSY_LAB := $(if $(filter-out unit,$(BUSY)),busy:)
WAVE_LABS = '$(BUSY_LAB)$(if $(LONG),1,3):$(LABS)$(1)'

# Lint comes alone: beside unit tests, both would compile all packages on a fresh machine.
.PHONY: test
test: need-go ## What a change must pass: lint, unit tests, rule tables, parity with upstream, and on a lab what every user relies on; goes on after a failure, and ends with what failed and what took how long; BUSY=1 runs four busy loops beside, BUSY=unit beside unit tests only
	@conformance/test.sh '1:lint' '$(BUSY_UNIT)2:$(UNIT)' '$(BUSY_LAB)1:lab-build' '$(BUSY_LAB)1:test-essentials'

.PHONY: test-all
test-all: need-go ## Everything: the same, and all tests on labs, faults, a real node, the chart, monitoring, pages in a browser, the release, more random cases; LONG=1 also fuzzes, and detects races
	@MANY=1 conformance/test.sh '1:lint' '$(BUSY_UNIT)2:$(UNIT)' $(if $(LONG),'1:test-race test-fuzz') '$(BUSY_LAB)1:lab-build' $(call WAVE_LABS, $(REST))

.PHONY: test-unit
test-unit: need-go ## The unit tests, rule tables and parity tests of make test; BUSY=1 runs four busy loops beside
	@conformance/test.sh '$(BUSY_UNIT)2:$(UNIT)'

# A package that hangs is ended after an hour; how fast the machine is decides nothing. make lint vets.
# Two packages at a time also with GOMAXPROCS=1, which is about what each of them may use.
UNIT_FLAGS := -count=1 -timeout 1h -vet=off $(if $(GOMAXPROCS),-p 2)

# -short leaves out what needs a lab, Prometheus or a browser, and tries a fifth of the random VPAs, pods and workloads, and few of
# the hundreds of overlays. MANY=1, as in make test-all, tries all.
NEED_LABS := browser|history|integration|monitoring|node|reliability

.PHONY: test-unit-root
test-unit-root: need-go
	go test $(UNIT_FLAGS) $(if $(MANY),$$(go list ./... | grep -vE '/conformance/($(NEED_LABS))$$'),-short ./...)

.PHONY: test-unit-upstream test-unit-lab
test-unit-upstream test-unit-lab: need-go
	go test -C conformance/$(@:test-unit-%=%) $(UNIT_FLAGS) $(if $(MANY),,-short) ./...

.PHONY: test-release
test-release: need-go ## Tests of the release: archives, images, SBOMs and the chart package, with a registry in the process
	go test -C release $(UNIT_FLAGS) ./...

.PHONY: page-test
page-test: need-go ## Open the pages of celvpa explain and celvpa backtest in Chromium, from the PATH or CHROME; skipped, with the reason, where there is none
	go test $(UNIT_FLAGS) -v ./conformance/browser | grep -vE '^=== |^ +--- PASS'

.PHONY: pictures
pictures: need-go ## Take docs/pictures again, from the examples, with Chromium
	mkdir -p docs/pictures
	go test ./conformance/browser -run '^TestPictures$$' -count 1 -pictures $(CURDIR)/docs/pictures

# The race detector needs cgo.
.PHONY: need-cc
need-cc: need-go
	@command -v $$(go env CC) >/dev/null || { echo "the race detector needs a C compiler, and there is no $$(go env CC): install one (apt-get install gcc libc6-dev), or leave LONG unset" >&2; exit 2; }

.PHONY: test-race
test-race: need-cc ## Tests that need no cluster under the race detector, a package at a time; make test-lab LONG=1 runs the lab suite with a celvpa that detects races
	for m in . $(MODULES); do CGO_ENABLED=1 go test -C $$m -race -short -p=1 -timeout 1h ./...; done

FUZZTIME ?= 30s

.PHONY: test-fuzz
test-fuzz: need-go ## Fuzz each fuzz target of all modules for FUZZTIME; other targets run their seeds only
	@for found in $$(grep -oE '^func Fuzz[A-Za-z0-9_]*' $$(git ls-files --cached --others --exclude-standard '*_test.go') | sed 's/func //' | sort); do \
	  folder=$$(dirname "$${found%%:*}"); target=$${found##*:}; \
	  echo "fuzzing $$target in $$folder for $(FUZZTIME)"; \
	  go test -C "$$folder" -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) . || exit 1; \
	done

.PHONY: test-lab
test-lab: need-go $(if $(LONG),need-cc) ## Tests on labs of their own (built and started by the tests), three suites at a time; LONG=1 one at a time, with a celvpa that detects races
	@conformance/test.sh '$(BUSY_LAB)1:lab-build' $(WAVE_LABS)

$(LABS) test-essentials test-node test-node-vm: export CELVPA_RACE := $(LONG)
$(LABS) test-essentials test-node test-node-vm: export GORACE := $(if $(LONG),halt_on_error=1)

.PHONY: test-essentials
test-essentials: need-go ## On a lab, what every user relies on: recommend, admit, resize, evict, overlays, explain, upgrade of CRDs
	go test -count=1 -timeout 4h -v -run '^TestEssentials$$' ./conformance/integration

.PHONY: test-integration
test-integration: need-go ## Tests on a lab: each component with a real API server
	go test -count=1 -timeout 4h -v ./conformance/integration

.PHONY: test-monitoring
test-monitoring: need-go ## Tests with a real Prometheus: of alerts and dashboards on a lab, and of history
	go test -count=1 -timeout 4h -v -p=1 ./conformance/monitoring ./conformance/history

.PHONY: test-node
test-node: need-go ## Tests on a real node, whose kernel is read: the virtual machine of make lab-up NODE=vm, or the cluster of KUBECONFIG with LOAD_IMAGE=command; skipped, with the reason, where parts are missing
	go test -count=1 -timeout 4h -v $(if $(TESTS),-run '$(TESTS)') ./conformance/node -args $(if $(KUBECONFIG),-cluster $(abspath $(KUBECONFIG))) $(if $(PATIENCE),-patience $(PATIENCE)) $(if $(BESIDE),-beside)

# A node that is emulated has no CPU to spare: celvpa runs beside it, but for the tests of its own pods. A cluster that happens to be
# in KUBECONFIG is not what make test-all is about.
.PHONY: test-node-vm
test-node-vm:
	@$(MAKE) --no-print-directory test-node KUBECONFIG= BESIDE=1
	@$(MAKE) --no-print-directory test-node KUBECONFIG= TESTS='Killed|Upgrade|UsageOfTheNode'

.PHONY: test-faults
test-faults: need-go ## Tests of faults on a lab: what docs/reliability.md promises
	go test -count=1 -timeout 4h -v ./conformance/reliability

.PHONY: chart-test
chart-test: need-go ## Lint and render the Helm chart, and install it and move over to it and back on a lab of its own, by the commands of the docs
	go test -C conformance/chart -count=1 -timeout 4h -v ./...

.PHONY: bench
bench: need-go ## Benchmarks, in the form benchstat reads, and at the end the tables of bench-recommender, bench-pods and bench-updater
	go test -run '^$$' -bench . -benchmem ./...
	@$(MAKE) --no-print-directory bench-recommender
	@$(MAKE) --no-print-directory bench-pods
	@$(MAKE) --no-print-directory bench-updater

.PHONY: bench-recommender
bench-recommender: bench-build ## The recommender beside upstream's on a lab: time, CPU, memory (12 minutes)
	@exec $(BENCH) recommender $(if $(CHECK),-check) $(if $(PROGRAMS),-programs $(PROGRAMS)) $(if $(PIPELINE),-pipeline $(PIPELINE))

.PHONY: bench-pods
bench-pods: bench-build ## The admission controller beside upstream's on a lab, under load over TLS: reviews per second, p99, CPU, memory (5 minutes)
	@exec $(BENCH) pods $(if $(CHECK),-check) $(if $(PROGRAMS),-programs $(PROGRAMS)) $(if $(PIPELINE),-pipeline $(PIPELINE))

.PHONY: bench-updater
bench-updater: bench-build ## The updater beside upstream's on a lab, 1000 VPAs with 2000 pods out of range: time, CPU, memory (10 minutes)
	@exec $(BENCH) updater $(if $(CHECK),-check) $(if $(PROGRAMS),-programs $(PROGRAMS)) $(if $(PIPELINE),-pipeline $(PIPELINE))

.PHONY: bench-scale
bench-scale: bench-build ## Recommender and updater in a simulated cluster of SCALE=50000 VPAs with three pods each, for an hour of its time (40 minutes); SCALE=500 MINUTES=8 takes half a minute
	@exec $(BENCH) scale $(if $(CHECK),-check) $(if $(SCALE),-vpas $(SCALE)) $(if $(MINUTES),-minutes $(MINUTES)) $(if $(COMPONENTS),-components $(COMPONENTS)) $(if $(PIPELINE),-pipeline $(PIPELINE))

.PHONY: sizing
sizing: bench-build ## Measure what docs/sizing.md says, at four sizes, and write it there (an hour; on a quiet machine)
	@exec $(BENCH) scale -vpas $(or $(SCALE),$(SIZES)) $(if $(MINUTES),-minutes $(MINUTES)) -doc docs/sizing.md -note "$(NOTE)"

.PHONY: bench-quality
bench-quality: need-go ## What upstream, KRR and folders of rules would request for real VMs, and how often that is too little, by replays of their usage (a CPU-second for each VM, month and policy)
	@go build -o bin/quality ./conformance/quality
	@exec bin/quality -traces '$(TRACES)' $(if $(VMS),-vms $(VMS)) $(if $(OUTPUT),-o $(OUTPUT)) $(RULES)

# A program of its own instead of `go run`, which would not pass SIGTERM on.
.PHONY: bench-build
bench-build: need-go
	@go build -o $(BENCH) ./conformance/bench

DURATION ?= 20m

# A program of its own, for the same reason.
.PHONY: soak
soak: need-go ## Run celvpa on a lab of its own for DURATION with SCALE workloads that change and faults, and check that nothing grows, no budget is broken and each error is explained; SEED repeats a run
	@go build -o bin/soak-run ./conformance/soak
	@exec bin/soak-run -duration $(DURATION) $(if $(SCALE),-scale $(SCALE)) $(if $(SEED),-seed $(SEED))

.PHONY: lint
lint: need-go $(STATICCHECK) ## gofmt, the length of files, go vet and staticcheck
	@unformatted=$$(gofmt -l $$(git ls-files --cached --others --exclude-standard '*.go')); \
	  if [ -n "$$unformatted" ]; then echo "not formatted (run gofmt -w):"; echo "$$unformatted"; exit 1; fi
	@long=$$(awk 'FNR == 501 {print FILENAME}' $$(git ls-files --cached --others --exclude-standard '*.go' ':!*/zz_generated.*')); \
	  if [ -n "$$long" ]; then echo "longer than 500 lines (split it by subject):"; echo "$$long"; exit 1; fi
	@parsed=$$(git grep -nE 'resource\.ParseQuantity\(|(quantity|[qQ])\.UnmarshalJSON\(' -- '*.go' ':!crds/quantity' ':!conformance/upstream' || true; \
	  git grep -nE 'resource\.MustParse\(' -- '*.go' ':!*_test.go' ':!crds/quantity' ':!conformance/upstream' || true); \
	  if [ -n "$$parsed" ]; then echo "1e-999999999 takes apimachinery's parser many minutes: use crds/quantity instead:"; echo "$$parsed"; exit 1; fi
	@failed=; for m in . $(MODULES); do \
	  echo "go vet and staticcheck of $$m"; (cd $$m && go vet ./... && $(CURDIR)/$(STATICCHECK) ./...) || failed="$$failed $$m"; done; \
	  if [ -n "$$failed" ]; then echo "faults in:$$failed"; exit 1; fi

$(STATICCHECK):
	GOBIN=$(CURDIR)/bin go install honnef.co/go/tools/cmd/staticcheck@$(@:bin/staticcheck-%=%)
	mv bin/staticcheck $@

.PHONY: build
build: need-go ## Build bin/celvpa
	go build -o bin/celvpa ./cmd/celvpa

RELEASE := go run -C release . $(if $(VERSION),-version $(VERSION))

.PHONY: release
release: need-go ## Write archives, images, SBOMs, the chart and checksums to dist/; VERSION=v1.2.3 (7 CPU-minutes or more the first time, 2 minutes once compiled)
	@$(if $(VERSION),go run ./conformance/rules/lock -check)
	@$(RELEASE) all

.PHONY: rules-lock
rules-lock: need-go ## Before a release is tagged: write down the rule sets and pipelines that it ships, which may not change under their version after it
	go run ./conformance/rules/lock

.PHONY: image
image: need-go ## Write the images for this machine's architecture to dist/, as OCI layouts
	@$(RELEASE) image

.PHONY: image-push
image-push: need-go ## Push the images to a registry; REPOSITORY=registry.example/team, INSECURE=1 for HTTP
	@$(RELEASE) $(if $(REPOSITORY),-repository $(REPOSITORY)) $(if $(INSECURE),-insecure) push

.PHONY: generate
generate: need-go ## Regenerate deepcopy code, CRDs, the reference pages of docs/ and what is generated in deploy/monitoring
	go generate ./crds/...
	go run ./cmd/celvpa crd --out crds/manifests
	cp crds/manifests/*.yaml deploy/chart/celvpa/files/crds/
	go run ./cmd/celvpa rules points > docs/points.md
	go run ./cmd/celvpa rules checks > docs/checks.md
	go run ./cmd/celvpa reference api > docs/api.md
	go run ./cmd/celvpa reference flags > docs/flags.md
	go run ./cmd/celvpa reference metrics > docs/metrics.md
	go run ./deploy/monitoring/generate deploy/monitoring
	cp deploy/monitoring/alerts.yaml deploy/monitoring/dashboards/*.json deploy/chart/celvpa/files/monitoring/

.PHONY: manifests
manifests: need-go ## Regenerate what is made from the Helm chart: its table of values, deploy/manifests and deploy/kustomize
	go run -C conformance/chart ./generate

.PHONY: lab-build
lab-build: need-go ## Build the lab's programs into bin/lab/parts (about 4 minutes the first time)
	$(LAB) build

.PHONY: lab-up
lab-up: need-go ## Start a lab: a real Kubernetes control plane with simulated nodes; NODE=vm: with a real one; NAME=… for several
	@$(LAB) up -name $(NAME) $(if $(NODE),-node $(NODE))

.PHONY: lab-down
lab-down: need-go ## Stop a lab and delete its data
	@$(LAB) down -name $(NAME)

.PHONY: clean
clean: ## Delete bin/, the lab's programs included, and dist/
	rm -rf bin dist

.PHONY: need-go
need-go:
	@command -v go >/dev/null || { echo "celvpa: go is not on the PATH; install Go 1.26 or newer from https://go.dev/dl" >&2; exit 2; }
