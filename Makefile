# The one front door. `make help` lists what there is.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

CLI := target/debug/operator-bounds
CORPUS ?= $(wildcard ../shared/corpus)
ORACLE := tests/oracle/oracle
SOURCES := $(shell find src crates policy-metadata/metadata.yml Cargo.toml Cargo.lock -type f -not -path '*/target/*' 2>/dev/null)

.PHONY: help
help: ## Show this
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9.-]+:.*## / {printf "  %-22s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: $(CLI) ## See a real operator refused, its RBAC derived, and admitted: no cluster needed
	@examples/etcd/run.sh "$(CURDIR)/$(CLI)"

.PHONY: test
test: toolchain lint unit-tests oracle-tests ## Everything that proves the policy: lints, unit, scenario, recording, corpus and oracle tests
	@$(E2E_TOOLS) || echo "NOT RUN: make e2e (the policy behind a real API server) cannot run here: it needs Go 1.26 and kubectl."

.PHONY: unit-tests
unit-tests: toolchain
	@echo "==> unit, command line, scenario, recording and corpus tests"
	cargo test --locked --workspace

.PHONY: e2e-tests
e2e-tests: toolchain ## Every scenario, natively, as wasm, and by kwctl when it is on PATH
	cargo test --locked --test scenarios

.PHONY: oracle-tests
oracle-tests: $(CLI) ## Compare coverage with Kubernetes' own Go code (needs Go)
	@if command -v go >/dev/null; then \
	  echo "==> 20,000 drawn pairs of rules, judged by Kubernetes' Go code and by operator-bounds"; \
	  (cd tests/oracle && go vet ./... && go test ./... && go build -o oracle .) && \
	  $(ORACLE) compare --binary $(CLI) --pairs 20000 $(if $(CORPUS),--corpus $(CORPUS)); \
	else \
	  echo "NOT RUN: Go is not on PATH, so coverage was not compared with Kubernetes' own code. Install Go 1.26."; \
	fi

CLUSTER ?= $(CURDIR)/.cache/cluster
OLM_V1 ?= deprecated

.PHONY: cluster
cluster: ## Leave a real control plane running, with OLM's CRDs (needs Go; OLM_V1=early|required|deprecated)
	@plane=$$(tests/cluster/build.sh); "$$plane" up --dir "$(CLUSTER)" --olm-v1 "$(OLM_V1)"

.PHONY: cluster-stop
cluster-stop: ## Stop it
	@plane=$$(tests/cluster/build.sh); "$$plane" down --dir "$(CLUSTER)"

.PHONY: cluster-tests
cluster-tests: ## The manifests of policy-metadata/ on a real API server (needs Go and kubectl)
	@if command -v go >/dev/null && command -v kubectl >/dev/null; then \
	  (cd tests/cluster && CGO_ENABLED=0 go vet -trimpath ./plane ./expressions && go test ./plane) && tests/cluster/smoke.sh; \
	else \
	  echo "NOT RUN: Go and kubectl are needed to try the manifests on a real API server."; \
	fi

# Whether everything is there that the end-to-end tests need.
E2E_TOOLS := command -v go >/dev/null && command -v kubectl >/dev/null

.PHONY: e2e
e2e: toolchain ## The policy behind a real API server: scenarios, live cases, the server's own judgement (needs Go and kubectl)
	@if $(E2E_TOOLS); then \
	  echo "==> end to end: every scenario on a real API server, what only a live one shows, and its own judgement"; \
	  cargo build --locked -p e2e -p operator-bounds && target/debug/e2e $(CLI) $(E2E); \
	else \
	  echo "NOT RUN: nothing was tried on a real API server: no scenario was replayed, no live case run, no operator compared."; \
	  echo "         Install Go 1.26 (https://go.dev/dl) and kubectl (https://kubernetes.io/docs/tasks/tools), then run make e2e."; \
	fi

.PHONY: lint
lint: toolchain ## rustfmt, clippy, cargo deny (when installed)
	@echo "==> lints"
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	@if command -v cargo-deny >/dev/null; then cargo deny --log-level error check bans licenses sources; \
	else echo "NOT RUN: cargo-deny is not installed (cargo install --locked cargo-deny)"; fi

.PHONY: fmt
fmt: ## Format everything
	cargo fmt --all
	@if command -v gofmt >/dev/null; then gofmt -w tests/oracle; fi

.PHONY: bench
bench: toolchain ## Print sizes, look-ups and ratios; asserts nothing
	cargo run --locked --release -p bench

policy.wasm: $(CLI) ## The policy, without metadata
	cp target/policy/wasm32-wasip1/wasm/operator_bounds_policy.wasm $@
	@ls -l $@

annotated-policy.wasm: policy.wasm policy-metadata/metadata.yml ## The policy as it is published (kwctl when on PATH, else built in)
	@if command -v kwctl >/dev/null; then kwctl annotate -m policy-metadata/metadata.yml -u README.md -o $@ policy.wasm; \
	else cargo run --locked -q -p operator-bounds-annotate --bin annotate-policy -- policy.wasm policy-metadata/metadata.yml $@ --usage README.md; fi
	@ls -l $@

$(CLI): $(SOURCES) | toolchain
	@echo "==> building the policy and the command line (the first time takes some minutes: it includes a wasm engine)"
	cargo build --locked -p operator-bounds
	@touch $@

.PHONY: toolchain
toolchain:
	@command -v rustup >/dev/null || { echo "rustup is needed: https://rustup.rs"; exit 2; }
	@rustup target list --installed 2>/dev/null | grep -qx wasm32-wasip1 || rustup target add wasm32-wasip1

.PHONY: clean
clean: ## Remove everything that was built
	cargo clean
	rm -f policy.wasm annotated-policy.wasm $(ORACLE)
