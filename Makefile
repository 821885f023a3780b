# Thin on purpose: the logic is in xtask (crate `xtask`) and in vtax itself.
.PHONY: build run test k8s-test bench soundness ft-soak ft-chaos check fuzz torture reproducible deb image package clean

# What is built says from which commit it is.
COMMIT ?= $(shell git describe --always --dirty --abbrev=12 2>/dev/null)

# Not by xtask, so that a source tree that is only built needs nothing in debug form.
build: ## the static binary, target/vtax
	@# A source tree without git can be built too; runs then record only the version.
	@# Panics name source files. Cargo's directory differs from user to user; without it the same sources give the same bytes.
	@VTAX_COMMIT="$(COMMIT)" cargo build --release --package vtax --config \
		"target.'cfg(target_env = \"gnu\")'.rustflags=['--remap-path-prefix=$${CARGO_HOME:-$$HOME/.cargo}=/cargo']"
	@# A running vtax keeps its old file: replace by rename, never write into it.
	@triple="$$(rustc -vV | sed -n 's/^host: //p')" && \
		cp "target/$$triple/release/vtax" target/vtax.new && mv target/vtax.new target/vtax

run: build ## set up what is missing and do the main job
	@# 3: something is missing that this user may not install. The rest is measured without it.
	@target/vtax setup || test $$? -eq 3
	@target/vtax run plans/quick.yaml

test: ## the whole test suite; installs the services it tests; with CHECK=1 all that `make check` checks, too
	@cargo xtask test $(if $(CHECK),--check)

k8s-test: ## many machines with a real Kubernetes, which is built first (needs root and Go)
	@cargo xtask k8s-test

bench: build ## compare with the peers; writes target/bench.json
	@cargo xtask bench

soundness: ## simulate whether intervals and verdicts keep their promises; writes target/soundness.json
	@cargo xtask soundness

ft-soak: build ## kill protected guests a hundred times in each mode
	@cargo xtask ft-soak

ft-chaos: build ## random schedules of faults, and whether what is said of them is what the requests say
	@cargo xtask ft-chaos

check: ## format, lints, licences
	@cargo xtask check

fuzz: ## a short run of every fuzz target
	@cargo xtask fuzz

torture: build ## every kind of end at random moments, for ten minutes
	@cargo xtask torture

reproducible: build ## build once more in another directory: the bytes must be the same
	@cargo xtask reproducible

deb: build ## a Debian package, target/vtax_VERSION_ARCH.deb
	@cargo xtask deb

image: build ## an OCI image, target/vtax-VERSION-oci.tar
	@cargo xtask image

package: ## every crate as a registry would get it; publishes nothing
	@cargo xtask package

clean:
	@cargo clean
