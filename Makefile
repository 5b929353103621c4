# The one front door. `make help` lists what there is.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

CLI := target/debug/operator-bounds
WEBHOOK := target/debug/test-webhook
# Always for the whole workspace: what packages share, the wasm engine above all, is then built once and not once for each
# selection of packages.
BUILD := cargo build --locked --workspace
CORPUS ?= $(wildcard ../shared/corpus)
ORACLE := tests/oracle/oracle
# Says what was left out, so that CI notices.
NOT_RUN := tests/parts/not-run.sh
SOURCES := $(shell find src crates policy-metadata/metadata.yml Cargo.toml Cargo.lock -type f -not -path '*/target/*' 2>/dev/null)

# What `make help` shows together; a target of no group comes last.
define HELP_GROUPS
Try it: run man
Test, no cluster needed: test scenario-tests oracle-tests html-tests ci-scripts-tests registry-tests
Test on a real API server: e2e e2e-all e2e-policy-server e2e-webhook e2e-differential olm-tests live-tests webhook-tests cluster-tests controller-tests derive-tests
Work with a real API server: cluster cluster-stop
While writing code: fmt lint bench controller-bench bench-policy-server release-check clean
Build and publish the policy: policy.wasm annotated-policy.wasm push reproducible
endef
export HELP_GROUPS

.PHONY: help
help: ## Show this
	@awk 'BEGIN { FS = ":.*## "; count = split(ENVIRON["HELP_GROUPS"], groups, "\n") } \
	  function show(name) { printf "  %-22s %s\n", name, texts[name]; delete texts[name] } \
	  /^[a-z0-9.-]+:.*## / { texts[$$1] = $$2; names[++found] = $$1 } \
	  END { \
	    for (g = 1; g <= count; g++) { \
	      split(groups[g], parts, ": "); print parts[1]; size = split(parts[2], members, " "); \
	      for (m = 1; m <= size; m++) if (members[m] in texts) show(members[m]); \
	      print "" } \
	    print "More"; for (n = 1; n <= found; n++) if (names[n] in texts) show(names[n]) }' $(MAKEFILE_LIST)

.PHONY: run
run: $(CLI) ## See a real operator refused, explained, its RBAC derived and granted, and accepted: no cluster needed
	@examples/etcd/run.sh "$(CURDIR)/$(CLI)"

.PHONY: test
test: toolchain lint unit-tests oracle-tests ## Everything that proves the policy: lints, unit, scenario (by kwctl too), recording, corpus and oracle tests
	@$(E2E_TOOLS) || $(NOT_RUN) "make e2e (the policy behind a real API server) cannot run here: it needs Go 1.26 and kubectl."

.PHONY: unit-tests
unit-tests: toolchain
	@echo "==> unit, command line, scenario, recording and corpus tests"
	cargo test --locked --workspace

.PHONY: scenario-tests
scenario-tests: toolchain ## Every scenario natively, as wasm, and by kwctl where there is one (SCENARIO=csv/account-missing: one directory)
	cargo test --locked --workspace --test scenarios -- $(SCENARIO)

.PHONY: oracle-tests
oracle-tests: $(CLI) ## Compare coverage with Kubernetes' own Go code (needs Go)
	@if command -v go >/dev/null; then \
	  echo "==> 20,000 drawn pairs of rules, judged by Kubernetes' Go code and by operator-bounds"; \
	  (cd tests/oracle && go vet ./... && go test ./... && go build -o oracle .) && \
	  $(ORACLE) compare --binary $(CLI) --pairs 20000 $(if $(CORPUS),--corpus $(CORPUS)); \
	else \
	  $(NOT_RUN) "Go is not on PATH, so coverage was not compared with Kubernetes' own code. Install Go 1.26."; \
	fi

CHROMIUM ?= $(shell command -v chromium || command -v chromium-browser || command -v google-chrome)

.PHONY: html-tests
html-tests: $(CLI) ## The pages of `check` and `audit` in a real browser (needs Chromium and Node 20)
	@if [ -n "$(CHROMIUM)" ] && command -v node >/dev/null; then \
	  OPERATOR_BOUNDS=$(CURDIR)/$(CLI) CHROMIUM=$(CHROMIUM) node --test tests/html/; \
	else \
	  $(NOT_RUN) "Chromium and Node are needed to try the page in a browser (apt-get install chromium nodejs)."; \
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
	  $(NOT_RUN) "Go and kubectl are needed to try the manifests on a real API server."; \
	fi

.PHONY: registry-tests
registry-tests: annotated-policy.wasm ## Publishing, with a real registry on loopback (needs Go, or Debian's docker-registry)
	@tests/registry/build.sh >/dev/null
	cargo test --locked --workspace --test registry -- --include-ignored
	@tests/registry/push.sh

.PHONY: reproducible
reproducible: policy.wasm ## Two clean builds of the module, at two places: the same bytes?
	@echo "==> two clean builds of the module (about a minute each)"
	$(BUILD) -q --bin build-policy
	tests/reproducible.sh target/debug/build-policy policy.wasm

.PHONY: release-check
release-check: toolchain ## Versions agree, workflows are pinned (RELEASE_TAG=v0.1.0: and this may be released)
	cargo test --locked -q --workspace --test release

.PHONY: live-tests
live-tests: toolchain ## Commands with --kubeconfig, audit of real operators, and look-ups, on a real API server (needs Go and kubectl)
	@if command -v go >/dev/null; then \
	  cargo test --locked --workspace --test live -- --include-ignored; \
	else \
	  $(NOT_RUN) "Go 1.26 is needed to try the command line on a real API server (https://go.dev/dl)."; \
	fi

.PHONY: webhook-tests
webhook-tests: toolchain ## The webhook that the end-to-end tests use, on a real API server (needs Go)
	@if command -v go >/dev/null; then \
	  cargo test --locked --workspace --test webhook -- --include-ignored; \
	else \
	  $(NOT_RUN) "Go 1.26 is needed to try the webhook on a real API server (https://go.dev/dl)."; \
	fi

.PHONY: controller-tests
controller-tests: $(CLI) ## The companion on a real API server, with its own rights, and beside the real OLM (needs Go)
	@if command -v go >/dev/null; then \
	  CONTROLLER_TESTS=1 cargo test --locked --workspace --test companion; \
	else \
	  $(NOT_RUN) "Go is not on PATH, and the control plane is built with it: the companion was not tested. Install Go 1.26."; \
	fi

.PHONY: controller-bench
controller-bench: $(CLI) ## Print what the gate takes for 1,000 groups, 10,000 RBAC objects and 20,000 copies; asserts nothing (needs Go)
	CONTROLLER_TESTS=1 cargo test --locked --workspace --test companion -- "bench: scale"

.PHONY: derive-tests
derive-tests: ## derive proven minimal: real operators on a real API server (needs Go and the corpus)
	@if command -v go >/dev/null && command -v kubectl >/dev/null && [ -n "$(CORPUS)" ]; then \
	  echo "==> 25 operators with exactly what derive prints, and without each single permission of it"; \
	  cargo test --locked --workspace --test derive_live -- --ignored --nocapture; \
	else \
	  $(NOT_RUN) "Go, kubectl and the corpus of real operators (CORPUS=…) are needed to prove that derive is minimal."; \
	fi

.PHONY: ci-scripts-tests
ci-scripts-tests: $(CLI) ## The steps of the GitHub action and the pre-commit hook, in repositories made for it
	@tests/ci.sh "$(CLI)"

.PHONY: man
man: $(CLI) ## Manual pages, into target/man
	@$(CLI) man target/man && ls target/man


# Whether everything is there that the end-to-end tests need.
E2E_TOOLS := command -v go >/dev/null && command -v kubectl >/dev/null

.PHONY: e2e
e2e: toolchain e2e-policy-server e2e-differential olm-tests ## What fits in CI: the policy in the real policy-server before a real API server, and beside the real OLM (needs Go and kubectl)

.PHONY: e2e-all
e2e-all: toolchain ## The same with every real operator, and with the test webhook in place of policy-server too
	@$(MAKE) --no-print-directory e2e OLM=--all
	@$(MAKE) --no-print-directory e2e-webhook

# Both kinds of webhook run the same scenarios and live cases.
.PHONY: e2e-policy-server
e2e-policy-server: toolchain ## Every scenario and the live cases through the real policy-server
	@if ! $(E2E_TOOLS); then \
	  $(NOT_RUN) "nothing was tried on a real API server: no scenario was replayed, no live case run. Install Go 1.26 (https://go.dev/dl) and kubectl (https://kubernetes.io/docs/tasks/tools)."; \
	elif ! tests/parts/find.sh policy-server >/dev/null; then \
	  $(NOT_RUN) "there is no policy-server: scenarios and live cases run with the test webhook in its place."; \
	  $(MAKE) --no-print-directory e2e-webhook; \
	else \
	  echo "==> end to end: every scenario on a real API server, through the real policy-server, and what only a live one shows"; \
	  $(BUILD) --bin e2e --bin test-webhook && \
	  target/debug/e2e $(WEBHOOK) scenarios --policy-server $(E2E) && target/debug/e2e $(WEBHOOK) live --policy-server $(E2E); \
	fi

.PHONY: e2e-webhook
e2e-webhook: toolchain ## The same through the test webhook
	$(BUILD) --bin e2e --bin test-webhook
	target/debug/e2e $(WEBHOOK) scenarios $(E2E)
	target/debug/e2e $(WEBHOOK) live $(E2E)

.PHONY: e2e-differential
e2e-differential: toolchain ## Real operators' RBAC, judged by the API server itself and by the policy
	@if $(E2E_TOOLS); then \
	  $(BUILD) --bin e2e --bin test-webhook && target/debug/e2e $(WEBHOOK) differential; \
	else \
	  $(NOT_RUN) "no operator was compared with the API server's own judgement: Go and kubectl are needed."; \
	fi

.PHONY: olm-tests
olm-tests: toolchain ## The real OLM, v0 and v1, beside the policy in the real policy-server (needs Go; OLM=--all: every real operator)
	@if command -v go >/dev/null; then \
	  $(BUILD) --bin beside-olm --bin operator-bounds && target/debug/beside-olm $(CLI) $(OLM); \
	else \
	  $(NOT_RUN) "nothing was tried beside the real OLM: Go is not on PATH, and the control plane is built with it."; \
	fi

.PHONY: olm-writes
olm-writes: ## The same, and docs/olm-writes.md: what OLM wrote meanwhile
	@$(MAKE) --no-print-directory olm-tests OLM="$(OLM) --writes=docs/olm-writes.md"

.PHONY: bench-policy-server
bench-policy-server: toolchain ## Measures the policy in the real policy-server, and writes docs/performance.md's table; asserts nothing
	@$(BUILD) --bin e2e --bin test-webhook && target/debug/e2e $(WEBHOOK) measure

.PHONY: lint
lint: toolchain release-check ## rustfmt, clippy, cargo deny (when installed)
	@echo "==> lints"
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	@if command -v cargo-deny >/dev/null; then cargo deny --log-level error check bans licenses sources; \
	else $(NOT_RUN) "cargo-deny is not installed (cargo install --locked cargo-deny)"; fi

.PHONY: fmt
fmt: ## Format everything
	cargo fmt --all
	@if command -v gofmt >/dev/null; then gofmt -w tests/oracle; fi

.PHONY: bench
bench: toolchain ## Print sizes, look-ups and ratios; asserts nothing
	cargo bench --locked --bench figures

policy.wasm: $(SOURCES) | toolchain ## The policy, without metadata
	$(BUILD) -q --bin build-policy
	target/debug/build-policy $@
	@ls -l $@

annotated-policy.wasm: policy.wasm policy-metadata/metadata.yml README.md ## The policy as it is published (kwctl when on PATH, else built in)
	@if command -v kwctl >/dev/null; then kwctl annotate -m policy-metadata/metadata.yml -u README.md -o $@ policy.wasm; \
	else $(BUILD) -q --bin annotate-policy && target/debug/annotate-policy policy.wasm policy-metadata/metadata.yml $@ --usage README.md; fi
	@ls -l $@

.PHONY: push
push: given-registry annotated-policy.wasm ## Publish it: REGISTRY=host/repository:tag (kwctl when on PATH, else built in)
	@if command -v kwctl >/dev/null; then kwctl push annotated-policy.wasm "registry://$(patsubst registry://%,%,$(REGISTRY))"; \
	else $(BUILD) -q --bin push-policy && target/debug/push-policy push annotated-policy.wasm "$(REGISTRY)"; fi

.PHONY: given-registry
given-registry:
	@[ -n "$(REGISTRY)" ] || { echo "Where to? make push REGISTRY=registry.example.com/policies/operator-bounds:v0.1.0" >&2; exit 2; }

$(CLI): $(SOURCES) | toolchain
	@echo "==> building the policy and the command line (the first time takes some minutes: it includes a wasm engine)"
	$(BUILD) --bin operator-bounds
	@touch $@

.PHONY: toolchain
toolchain:
	@command -v rustup >/dev/null || { echo "rustup is needed: https://rustup.rs"; exit 2; }
	@rustup target list --installed 2>/dev/null | grep -qx wasm32-wasip1 || rustup target add wasm32-wasip1

.PHONY: clean
clean: ## Remove everything that was built
	cargo clean
	rm -f policy.wasm annotated-policy.wasm $(ORACLE)
