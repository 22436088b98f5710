# "make help" lists the targets. Everything runs from a fresh clone; the tools are built once into .tools.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

# What the tests need from Debian: a PostgreSQL server of their own with a pooler, and a C compiler for the race detector.
DEBIAN_PACKAGES := postgresql pgbouncer gcc libc6-dev python3-dkim python3-nacl

# The program is one static binary.
export CGO_ENABLED := 0

# What is compiled names no folder, so that another clone finds it in the cache.
export GOFLAGS := -trimpath $(GOFLAGS)

TOOLS := .tools/bin
# The tools are built again when their versions, or the compiler, change.
TOOLS_STAMP := .tools/$(shell { cat tools/go.mod tools/go.sum; go env GOVERSION; } | sha256sum | cut -c1-16)
LINT := $(TOOLS)/golangci-lint

# Runs "go test", prints what it prints and then one line with the number of tests. "make lint" has all of it vetted once, and
# half the time of linking goes into the tables of debuggers.
TEST := $(TOOLS)/gotestsum --format standard-quiet --hide-summary skipped -- -vet=off -ldflags=-w

# These packages take longest, or wait most: they begin first, so that nothing waits for them at the end. The engine takes longest under the
# race detector, and begins before the others there.
FIRST := $(wildcard $(addprefix ./internal/,chaos cli api engine))

# SQLite is C translated to Go, with memory of its own where the detector sees nothing: to watch it costs three quarters of
# the time. Its driver is watched. A program under the detector would wait a second before it ends.
RACE := -race -gcflags=modernc.org/libc/...=-race=false -gcflags=modernc.org/sqlite/lib=-race=false
export GORACE := atexit_sleep_ms=20

# Tests leave much garbage and live short: to collect it less often saves a tenth of their time.
unit quick tagged race: export GOGC := 400

# Pure packages have no goroutines: the race detector has nothing to find there, nor in scenarios and acceptance cases, which one
# goroutine lives through, on both databases. Commands and pages are tried on SQLite, by servers that internal/app and internal/api
# start too.
RACE_PACKAGES = $$(go list ./... | grep -vE '/internal/($(PURE)|$(TABLES)|acceptance|sim|cli|docs)(/|$$)')
PURE := arch|admission|allowance|job|outbox|journal|trace|civil|reason|strictjson|suggest|key|subject|schedule|expr|condition|cadence|flow|message|survey|digest|rowreader|definition|instance|delivery|plan|textdiff

# Their tests are tables of decisions, without goroutines and without a database; internal/engine runs what they decide.
TABLES := engine/stage/[a-z]+|engine/service/operator|engine/plumbing/audience

# Tests that are the same in both runs: they have no database, or one of their own. "make test" runs them under the detector alone.
SAME := /carillon/(client|examples/.*|internal/(channel/(inbox|memory|webhook)|clock|config|demo|pgtest|secret|signature|sink/.*|telemetry))$$
UNIT_PACKAGES = $(if $(CARILLON_TEST_RACED),$$(go list ./... | grep -vE '$(SAME)'),./...)

# Targets whose code is not there are not offered.
ABSENT := none$(if $(wildcard cmd/carillon/*.go),,|build|demo)$(if $(wildcard internal/chaos/*.go),,|reliab)

.PHONY: help
help: ## list the targets
	@grep -E '^[a-z]+:.*## ' Makefile | grep -vE '^($(ABSENT)):' | sed -E 's/:.*## /\t/' | expand -t 12

.PHONY: build
build: ## build bin/carillon
	go build -o bin/ ./cmd/carillon

.PHONY: test
test: ## everything that must hold: formatting, lint, tests, race detector; one that fails stops no other
	@$(MAKE) --no-print-directory packages tools
	@$(MAKE) --no-print-directory --keep-going CARILLON_TEST_RACED=1 format generated lint peers unit tagged race

.PHONY: unit
unit: $(TOOLS_STAMP) ## all tests, on SQLite and PostgreSQL; in "make test" most run on PostgreSQL in race alone
	$(TEST) -timeout 60m $(FIRST) $(UNIT_PACKAGES)

.PHONY: quick
quick: $(TOOLS_STAMP) ## in a minute: the fast linters, and the tests of what decides without a database
	$(LINT) run --fast-only
	CARILLON_TEST_DB=sqlite $(TEST) -timeout 2m $$(go list ./... | grep -E '/internal/($(PURE)|engine/.+)(/|$$)')

.PHONY: tagged
tagged: $(TOOLS_STAMP) ## the build that sends traces (-tags otlp): go vet, and its tests
	go vet -tags otlp ./internal/app ./internal/telemetry
	$(TEST) -tags otlp -timeout 2m -run 'Traces' ./internal/app ./internal/telemetry

# Tests of the store and the engine run on SQLite without the detector only.
.PHONY: race
race: $(TOOLS_STAMP) ## the tests on PostgreSQL under the race detector
	CGO_ENABLED=1 CARILLON_TEST_DB=postgres $(TEST) $(RACE) -timeout 60m $(lastword $(FIRST)) $(filter-out ./internal/cli,$(FIRST)) $(RACE_PACKAGES)

.PHONY: lint
lint: $(TOOLS_STAMP) ## golangci-lint: go vet, staticcheck, who imports what, style
	$(LINT) config verify
	$(LINT) run

.PHONY: format
format: $(TOOLS_STAMP)
	@files=$$($(TOOLS)/gofumpt -l .); [ -z "$$files" ] || { printf '%s\n' "$$files" "make fmt formats these"; exit 1; }

.PHONY: fmt
fmt: $(TOOLS_STAMP) ## format the Go files
	$(LINT) fmt

.PHONY: generate
generate: $(TOOLS_STAMP) ## write generated files again
	$(TOOLS)/templ generate -log-level warn
	$(TOOLS)/gofumpt -w $$(git ls-files --cached --others --exclude-standard -- '*_templ.go')
	PATH="$$PWD/$(TOOLS):$$PATH" go generate ./...

.PHONY: generated
generated: $(TOOLS_STAMP)
	@scripts/check-generated

.PHONY: fuzz
fuzz: ## every fuzz target for a short time (FUZZTIME=10s)
	scripts/fuzz $(FUZZTIME)

# The bench is a module of its own, so that the libraries it compares with are none of the product's.
.PHONY: bench
bench: ## beside peers and limits, in about a quarter of an hour; writes docs/reference/performance.md
	go run -C bench . -write ../docs/reference/performance.md

.PHONY: peers
peers: ## the bench's code: go vet, and its tests
	@go list -C bench -deps -test ./... >/dev/null || { echo "The bench was not checked. When a module of bench/go.mod" \
		"cannot be had, set GOPROXY to a proxy that has it; when go.mod is out of date, run \"go mod tidy\" in bench" >&2; exit 1; }
	go vet -C bench ./...
	go test -C bench -vet=off ./...

.PHONY: micro
micro: ## Go benchmarks of all packages
	go test -run '^$$' -bench . -benchmem ./...

.PHONY: reliab
reliab: ## kills, freezes and losses, and the audit afterwards
	go test -v -tags reliab -count=1 -timeout 30m ./internal/chaos/...

.PHONY: lives
lives: ## the properties of the engine over three times as many lives as in "make test", which are new each time
	CARILLON_TEST_LIVES=all go test -count=1 -timeout 30m ./internal/engine

.PHONY: leaves
leaves: ## change each value of the acceptance data, one at a time: the tests must notice; some in "make test"
	CARILLON_TEST_DB=sqlite CARILLON_ACCEPTANCE_LEAVES=all go test -count=1 -timeout 60m -run TestAcceptanceBites ./internal/acceptance

.PHONY: pages
pages: ## have axe-core look at every page of the console, and of surveys, in Chromium
	CARILLON_TEST_DB=sqlite CARILLON_TEST_PAGES=all go test -count=1 -timeout 15m -run 'TestAxe|TestInChromium' ./internal/console ./internal/public

.PHONY: openapi
openapi: ## lint the OpenAPI document with redocly and spectral, which npm installs
	CARILLON_LINT_OPENAPI=1 go test -v -count=1 -run TestDocumentLinters ./internal/api

.PHONY: demo
demo: build ## run the program with sample data
	bin/carillon demo

.PHONY: tools
tools: $(TOOLS_STAMP) ## build the tools pinned in tools/go.mod
	@:
$(TOOLS_STAMP):
	GOBIN="$$PWD/$(TOOLS)" go install -C tools tool
	@rm -f .tools/????????????????
	@touch $@

.PHONY: packages
packages:
	@scripts/debian-packages $(DEBIAN_PACKAGES)
	@scripts/promtool $(TOOLS)

.PHONY: clean
clean: ## remove what was built, but not the tools
	rm -rf bin coverage.out
