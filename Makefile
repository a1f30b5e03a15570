# Chokepoint. `make help` lists what there is.
#
# The settings of bench, compare and demo runs are variables; each is a flag of
# `lab run exhaustion` (`bin/lab run exhaustion -h` lists them all). ARGS passes any
# other, as in `make bench PROFILE=anti ARGS="-permits 5"`.

GO      ?= go
BIN     := bin
RESULTS ?= results

# Paths of the machine that builds would end up in every goroutine dump.
GOFLAGS_BUILD := -trimpath -buildvcs=$(shell git rev-parse --verify -q HEAD >/dev/null 2>&1 && echo true || echo false)

SCENARIO ?= exhaustion
PROFILES ?= anti,fixed
RUNS     ?= 3

# flag,VARIABLE -> -flag="value" where the variable is set.
flag = $(if $($(2)),-$(1)="$($(2))")
SETTINGS = $(call flag,scale,SCALE) $(call flag,rate,RATE) $(call flag,duration,DURATION) \
	$(call flag,workers,WORKERS) $(call flag,graceful-stop,GRACEFUL_STOP) \
	$(call flag,recovery-wait,RECOVERY_WAIT) $(call flag,delay,DELAY) $(call flag,fault,FAULT) \
	$(call flag,toxiproxy,TOXIPROXY) $(call flag,runtime,RUNTIME) -results="$(RESULTS)" $(ARGS)

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'
	@echo
	@echo "  make bench PROFILE=anti|timeout|bulkhead|fixed|breaker|shed|cancel|unbounded [SCALE=0.1] [RATE=20] [DURATION=60s]"
	@echo "  make bench SCENARIO=deadconn|closerace|rolling|drain|drainmap|spread"
	@echo "  make compare PROFILES=anti,fixed RUNS=3 [SCALE=0.1] [FAULTS=slow,hang,refused,reset,loss,tls_hang]"

.PHONY: build
build: ## build the four programs into bin/, static and without paths of this machine
	CGO_ENABLED=0 $(GO) build $(GOFLAGS_BUILD) -o $(BIN)/ ./cmd/...

.PHONY: bench
bench: build ## one run: make bench PROFILE=anti
	@$(BIN)/lab run $(SCENARIO) $(call flag,profile,PROFILE) $(SETTINGS)

.PHONY: compare
compare: build ## alternated runs and their comparison: make compare PROFILES=anti,fixed RUNS=3
	@$(BIN)/lab compare $(SCENARIO) -profiles="$(PROFILES)" -runs="$(RUNS)" $(call flag,faults,FAULTS) $(SETTINGS)

# One run of each: what is shown is how it dies and does not, not by how much. A browser
# draws on the same machine, so a lag beyond the usual limit is no reason against it.
.PHONY: demo
demo: SCALE := 0.25
demo: RECOVERY_WAIT := 140s
demo: RUNS := 1
demo: build ## watch the pool die, and then hold, in a browser or a terminal: a minute and a half
	@$(BIN)/lab compare $(SCENARIO) -live -max-lag=50ms -profiles="$(PROFILES)" -runs="$(RUNS)" $(SETTINGS)

.PHONY: test
test: test-unit test-k8s test-pages test-e2e ## everything: unit tests, race detector, manifests, pages in a browser, scaled end-to-end runs

# The model of the queues is one goroutine: the race detector finds nothing there, and takes
# ten times the time. Sizing asks it in parallel, and is run so by the tests of cmd/lab.
.PHONY: test-unit
test-unit: ## unit tests, under the race detector
	$(GO) test -race $$($(GO) list ./... | grep -vE '/evidence/(queueing|sizing)$$')
	$(GO) test ./internal/evidence/queueing ./internal/evidence/sizing

.PHONY: test-k8s
test-k8s: ## the manifests of deploy/k8s, and their containers as processes
	$(GO) -C deploy/k8s/check test -count 1 ./...

# Behind a tag, so that go test ./... needs no browser.
.PHONY: test-pages
test-pages: ## the reports and the live view in a real headless Chromium
	$(GO) test -tags browser -count 1 ./test/pages

# One package at a time and no race detector: these runs measure, one after the other. Those
# that measure nothing come last, side by side: they mostly wait.
.PHONY: test-e2e
test-e2e: build ## scaled runs of the whole lab against a real PostgreSQL
	$(GO) test -tags e2e -count 1 -p 1 -parallel 4 -timeout 20m ./test/e2e

# Only CI has no registry: there PostgreSQL's image is made of the installed server.
.PHONY: test-compose
test-compose: build ## the lab in containers, on a real Docker engine
	CHOKEPOINT_POSTGRES_IMAGE="$${CHOKEPOINT_POSTGRES_IMAGE:-$$(scripts/postgres-standin.sh)}" \
		sh -c '$(GO) test -tags compose -count 1 -timeout 10m ./internal/lab/world && \
		$(GO) test -tags "e2e compose" -count 1 -timeout 10m -run Compose ./test/e2e'

.PHONY: lint
lint: ## gofmt, go vet, staticcheck
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); \
		if [ -n "$$unformatted" ]; then echo "not gofmt'd: $$unformatted"; exit 1; fi
	$(GO) vet -tags "e2e compose browser" ./...
	$(GO) tool -modfile=tools/go.mod staticcheck -tags "e2e compose browser" ./...
	cd deploy/k8s/check && $(GO) vet ./... && $(GO) tool -modfile=../../../tools/go.mod staticcheck ./...

.PHONY: bench-self
bench-self: build ## what the lab itself costs: /fast beside a bare handler, the pause of a dump, a look at a kept connection
	$(GO) test -run '^$$' -bench . -benchtime 1x -count 1 ./test/overhead

# Tools that are installed run beside loadgen; docs/programs.md says how to get them.
# An hour and a half on a machine that should do nothing else; ARGS=-short takes minutes.
.PHONY: bench-peers
bench-peers: build ## loadgen beside the load generators that are installed: ARGS="-short", PEERS_DIR=folder
	CGO_ENABLED=0 $(GO) build $(GOFLAGS_BUILD) -o $(BIN)/ ./test/peers
	$(BIN)/peers -results="$(RESULTS)" $(ARGS)

.PHONY: clean
clean: ## remove what was built; results stay
	rm -rf $(BIN)
