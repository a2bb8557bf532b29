# Each target is complete on a fresh Debian 12 as root: it installs what is missing and says so.
export PATH := $(PATH):$(HOME)/.cargo/bin
export RUST_BACKTRACE ?= 0
SHELL := /bin/bash

.PHONY: demo test bench build lint

demo: ## the main job, seen
	@scripts/setup demo
	@$(MAKE) --no-print-directory build
	@scripts/demo

test: ## every test: lint, units, private kernels, reference plugins, real runtimes
	@scripts/setup test
	@$(MAKE) --no-print-directory lint build
	@scripts/test

bench: ## ratios against the reference plugins and the kernel's floor
	@scripts/setup test
	@$(MAKE) --no-print-directory build
	@cargo run --quiet --release -p bench

build: ## the one binary
	@scripts/setup build
	@cargo build --quiet --release -p spoke

lint:
	@scripts/setup build
	@cargo xtask ci
