# Entry points for people; CMakePresets.json has the builds behind them.

PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
export JOBS STORES

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo demo-server build deb deb-test container-test test test-sanitized test-newer check-sources check-all fuzz soak bench bench-peers bench-peers-ids install \
  clean setup setup-embedded setup-test format

help:  ## list the targets
	@echo 'Holdfast: make TARGET'
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/\1|\2/p' $(firstword $(MAKEFILE_LIST)) | \
	  awk -F'|' '{ printf "  %-15s %s\n", $$1, $$2 }'

demo: setup-embedded  ## install what is needed, build, and see eight processes share a stock file
	@cmake --preset release
	@cmake --build --preset release -j $(JOBS) --target holdfast_demo holdfast_cli
	@build/release/bin/holdfast-demo

demo-server: setup-test  ## see a lock server fail over to another one, on three etcd members
	@cmake --preset release >/dev/null
	@cmake --build --preset release -j $(JOBS) --target holdfast_demo holdfast_cli
	@scripts/demo-server build/release/bin

build:  ## build the release into build/release (programs in build/release/bin)
	@cmake --preset release
	@cmake --build --preset release -j $(JOBS)

test: setup-test  ## install what the tests need, build and run all (STORES="sqlite": those alone)
	@scripts/test

test-sanitized: setup-test  ## the same under address+undefined and thread sanitizers
	@scripts/test sanitized

COMMITS ?= 0
LIMIT ?= 7200
check-sources: setup-test  ## compile each source by itself, with gcc (COMMITS=40: those that changed; LIMIT=180: so many seconds)
	@cmake --preset dev >/dev/null
	@cmake --build --preset dev -j $(JOBS) --target all tests_all
	@scripts/check-sources --commits $(COMMITS) --seconds $(LIMIT) build/dev

check-all:  ## the rest of the matrix: clang, clang-tidy, release tests, long simulations
	@scripts/setup build test bench check
	@scripts/check-all

SECONDS ?= 60
fuzz:  ## feed every decoder garbage for SECONDS (60) each
	@scripts/setup build test fuzz
	@scripts/fuzz $(SECONDS)

HOURS ?= 1
soak: setup-test  ## run the lab for HOURS (1), and add what it saw to docs/evidence.md
	@cmake --preset release-tests >/dev/null
	@cmake --build --preset release-tests -j $(JOBS) --target holdfast_lab
	@scripts/soak run --hours $(HOURS)

test-newer: setup-test  ## the tests on Redis 8, Valkey, etcd 3.5 and ZooKeeper 3.9, which come from Debian 13
	@scripts/test-newer

bench:  ## build and run the benchmarks: a table, and build/bench.json
	@scripts/setup build bench
	@cmake --preset bench
	@cmake --build --preset bench -j $(JOBS)
	@bench/run build/bench

bench-peers:  ## compare with other clients' locks, about 40 minutes, and write docs/performance.md
	@scripts/setup build test bench
	@cmake --preset bench
	@cmake --build --preset bench -j $(JOBS) --target holdfast_peer peer_server
	@bench/peers/run build/bench

bench-peers-ids:  ## compare with other id generators, about 10 minutes, and write docs/performance-ids.md
	@scripts/setup build test bench
	@cmake --preset bench
	@cmake --build --preset bench -j $(JOBS) --target holdfast_ids_peer
	@bench/peers/run build/bench --ids

deb: setup  ## make Debian packages, in build/deb/packages
	@scripts/setup deb
	@cmake --preset deb
	@cmake --build --preset deb -j $(JOBS)
	@cd build/deb && cpack

deb-test: deb  ## install the packages into a folder of their own, use and remove them (needs root)
	@tests/install/check_packages build/deb/packages

container-test:  ## play the recipe of the lock service's image in folders, and use what comes out (needs root and mmdebstrap)
	@python3 -B tests/install/play_container.py "$(CURDIR)/build/container"

install: build  ## install the release into PREFIX (/usr/local); DESTDIR is honoured
	@cmake --install build/release --prefix $(PREFIX)

setup:  ## install the Debian packages that a build with all stores needs
	@scripts/setup build

setup-embedded:
	@scripts/setup embedded

setup-test:  ## install the Debian packages that build and tests need
	@scripts/setup build test

format:  ## lay out the sources with clang-format
	@git ls-files '*.cc' '*.h' | xargs -r clang-format -i

clean:  ## remove what was built
	@rm -rf build
