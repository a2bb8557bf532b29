# Each target is complete on a fresh Debian 12 as root: it installs what is missing and says so.
export PATH := $(PATH):$(HOME)/.cargo/bin
export RUST_BACKTRACE ?= 0
SHELL := /bin/bash

.PHONY: help demo demo-hosts check test churn churn-names churn-via programs test-vm test-neutron test-suites reproducible test-package test-upgrade test-suites fuzz bench build install deb archive lint
PREFIX ?= /usr/local

help: ## this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/    make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24

# The crates that the edit loop tests: CRATES="engine linux", or those with changes since the branch `main`, or all.
BASE := $(shell git merge-base HEAD main 2>/dev/null || echo HEAD)
CHANGED := $(shell git diff --name-only $(BASE) -- crates 2>/dev/null | cut -d / -f 2 | sort -u)
CRATES ?= $(CHANGED)

check: ## the edit loop: format, clippy, unit tests of the crates that changed (CRATES="model engine" names them)
	@scripts/setup build
	@cargo fmt --all --check
	@cargo clippy --workspace --lib --bins --quiet -- -D warnings
	@cargo test --quiet $(if $(filter-out spoke,$(or $(CRATES),all)),--lib) --bins $(or $(CRATES:%=--package %),--workspace --exclude tests --exclude fuzz)

demo: ## the main job, seen
	@scripts/setup demo
	@$(MAKE) --no-print-directory build
	@scripts/demo

demo-hosts: ## many hosts, seen: two join, containers talk, one host is killed and its address moves
	@scripts/setup demo
	@scripts/setup hosts
	@$(MAKE) --no-print-directory build
	@scripts/demo-hosts

test: ## every test: lint, units, private kernels, reference plugins, real runtimes
	@scripts/setup test
	@cargo fmt --all --check
	@cargo xtask tidy
	@$(MAKE) --no-print-directory -j2 build programs
	@scripts/test --lint

churn: ## 10,000 random events over three hosts of a cluster (CHURN_EVENTS, CHURN_SEED)
	@scripts/setup test
	@$(MAKE) --no-print-directory build
	@CHURN_EVENTS=$${CHURN_EVENTS:-10000} cargo test --quiet -p tests --test hosts -- --nocapture churn::

churn-names: ## 1,000 containers come and go for ten minutes while they are asked for by name (NAMES_SECONDS, NAMES_CONTAINERS)
	@scripts/setup test
	@$(MAKE) --no-print-directory build
	@NAMES_SECONDS=$${NAMES_SECONDS:-600} NAMES_CONTAINERS=$${NAMES_CONTAINERS:-1000} cargo test --quiet -p tests --test names -- --nocapture churn::

churn-via: ## the container that is a network's way comes back 100 times, and no packet leaves elsewhere (VIA_RESTARTS)
	@scripts/setup test
	@$(MAKE) --no-print-directory build
	@VIA_RESTARTS=$${VIA_RESTARTS:-100} cargo test --quiet -p tests --test via -- --nocapture gateway::

test-vm: ## the tests of links that this kernel lacks, in a guest; FILTER="vlan vrf" chooses
	@scripts/setup test
	@scripts/setup vm
	@$(MAKE) --no-print-directory build
	@scripts/vm-tests $(FILTER)
	@scripts/machine-tests qemu
	@scripts/machine-tests beside
	@scripts/machine-tests libvirt

test-neutron: ## a whole Neutron with OVN; NEUTRON=pypi takes the newest instead of Debian's
	@scripts/setup test
	@scripts/setup neutron
	@$(MAKE) --no-print-directory build
	@scripts/neutron-tests $(or $(NEUTRON),debian)

test-suites: ## the suites of the reference CNI plugins against the binary; SUITES="bridge ptp" chooses
	@scripts/setup test
	@$(MAKE) --no-print-directory build
	@SPOKE="$$(ls -t target/*/release/spoke | head -n 1)" scripts/reference-suites $(SUITES)

reproducible: ## two release builds in two directories are the same, byte by byte
	@scripts/setup build
	@scripts/reproducible

test-package: ## the Debian package in a Debian of its own: install, upgrade, downgrade, remove, purge
	@scripts/setup package
	@scripts/package-tests

test-upgrade: ## hosts with the last release's program beside hosts with this one, and upgrades under traffic
	@scripts/setup test
	@$(MAKE) --no-print-directory build
	@last="$$(scripts/last-release)" && SPOKE_LAST="$$last" cargo test --quiet -p tests --test hosts -- --nocapture upgrade::

fuzz: ## new random inputs, ten minutes for each target (SPOKE_FUZZ_SECONDS)
	@scripts/setup build
	@SPOKE_FUZZ_SECONDS=$${SPOKE_FUZZ_SECONDS:-600} cargo test --release -p fuzz -- --nocapture

bench: ## ratios against the reference plugins and the kernel's floor
	@scripts/setup test
	@$(MAKE) --no-print-directory build
	@cargo run --quiet --release -p bench

build: ## the one binary
	@scripts/setup build
	@cargo build --quiet --release -p spoke

# The tests' own programs, while one processor links the binary.
programs:
	@cargo test --quiet --workspace --no-run

install: build ## the binary, its manual pages and completions below PREFIX
	@install -D -m 755 "$$(ls -t target/*/release/spoke | head -n 1)" $(DESTDIR)$(PREFIX)/bin/spoke
	@$(DESTDIR)$(PREFIX)/bin/spoke man $(DESTDIR)$(PREFIX)/share/man/man1
	@mkdir -p $(DESTDIR)$(PREFIX)/share/bash-completion/completions
	@$(DESTDIR)$(PREFIX)/bin/spoke completion bash >$(DESTDIR)$(PREFIX)/share/bash-completion/completions/spoke
	@echo "spoke is in $(DESTDIR)$(PREFIX)/bin; \`spoke cni install\` makes it the host's CNI plugins"

deb: ## the Debian package, in target/packages
	@scripts/setup deb
	@scripts/deb

archive: ## a static program for other distributions, with checksums and its contents, in target/packages
	@scripts/setup archive
	@scripts/archive

lint: ## format, clippy, documentation, the project's own rules
	@scripts/setup build
	@cargo xtask ci
