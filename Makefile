# The commands of Spindle: `make` lists them. They only put the steps in order;
# tools/setup installs what is missing, tools/image-cargo builds for bare metal,
# and the host program spindle-qemu (qemu/) knows boards, QEMU and verdicts.

.DEFAULT_GOAL := help
.SILENT:
# Steps of one command build on each other, and cargo uses every core by itself.
.NOTPARALLEL:
.PHONY: help run test test-long test-host torture torture-bugs loom sanitize bench gdb check doc clean tool

# Values go to the shell through its environment, never through the text of a
# recipe, so that no blank, quote or dollar in them is ever read as shell or make.
values := BOARD CORES TEST FILTER APPEND SEEDS SEED WALL PORT DISK
$(foreach v,$(values),$(if $(filter command,$(origin $v)),$(eval override $v := $$(value $v))))
# TEST chooses tests and FILTER benchmarks; who mixes them up is understood.
ifeq ($(value TEST),)
override TEST := $(value FILTER)
endif
export $(values)
# Cargo and the images must land where the recipes look for them.
export CARGO_TARGET_DIR := $(CURDIR)/target

# mkfs.fat and fsck.fat are where only root looks, on some machines.
export PATH := $(PATH):/usr/sbin:/sbin

# Options of spindle-qemu from those values, each only if it has one.
cores = $${CORES:+--cores "$$CORES"}
append = $${APPEND:+--append "$$APPEND"}
port = $${PORT:+--port "$$PORT"}
disk = $${DISK:+--disk "$$DISK"}
filter = $${TEST:+--filter "$$TEST"}
seeds = $${SEEDS:+--seeds "$$SEEDS"} $${SEED:+--seed "$$SEED"} $${WALL:+--wall}

# The ordinary cargo, as tools/setup found it; make's own jobs are not cargo's.
host = unset MAKEFLAGS MFLAGS; . target/setup/host.env;
qemu = $(host) exec target/debug/spindle-qemu

# $(call ready,NEEDS): with the boards in "$@", judges the values before it
# installs anything, and the emulator after. Leaves the instruction sets in $arches.
define ready
needs='image $(1)' arches=''; \
for board; do \
	target/debug/spindle-qemu check --args-only --board "$$board" $(cores) || exit; \
	needs="$$needs qemu-$$board"; \
	case $$board in pc) arch=x86_64 ;; *) arch=aarch64 ;; esac; \
	case $$arches in *$$arch*) ;; *) arches="$$arches $$arch" ;; esac; \
done; \
tools/setup $$needs || exit; \
for board; do target/debug/spindle-qemu check --board "$$board" $(cores) || exit; done
endef
one_board = set -- "$${BOARD:=pc}"
torture_boards = if [ -n "$$BOARD" ]; then set -- "$$BOARD"; else set -- pc virt; fi
all_boards = if [ -n "$$BOARD" ]; then set -- "$$BOARD"; else set -- pc virt raspi3b; fi

# $(call images,PROFILE,BINARIES,CARGO'S OPTIONS): builds and packs for $arches.
define images
for arch in $$arches; do \
	tools/image-cargo build --arch $$arch -p spindle-kernel --profile $(1) $(2:%=--bin %) $(3) && \
	tools/image-cargo pack --arch $$arch $(1) $(2) || exit; \
done
endef

# $(call blink,PROFILE): the same for the image without heap and runtime; on its own, because
# built together with others it would get the features that those ask of its crates.
define blink
for arch in $$arches; do \
	tools/image-cargo build --arch $$arch -p spindle-blink --profile $(1) && \
	tools/image-cargo pack --arch $$arch $(1) blink || exit; \
done
endef

help:
	echo "Spindle. The commands:"
	sed -n 's/^\([a-z-]*\):.*## *\(.*\)/\1|\2/p' Makefile | while IFS='|' read -r name text; do printf '  make %-12s %s\n' "$$name" "$$text"; done
	echo
	echo "BOARD is pc, virt, raspi3b or raspi4b (default pc; for test pc, virt and raspi3b). What is missing they install."

tool:
	tools/setup host
	[ -e target/debug/spindle-qemu ] || echo "building spindle-qemu, the host program that runs the images ..." >&2
	$(host) cargo build -q -p spindle-qemu

run: tool ## boot to a shell [BOARD=pc CORES=n APPEND="..." PORT=n DISK=file]; with no terminal, run the tour
	$(one_board); $(ready); $(call images,image,spindle,--features trace); \
	$(qemu) run --board "$$BOARD" $(cores) --images target/images $(append) $(port) $(disk)

test: tool ## host tests, then the test images [BOARD=... CORES=n TEST=filter]
	$(all_boards); $(call ready,curl fat); $(call images,image,spindle,--features trace); $(call blink,image); $(call images,image,tests fixtures,--features kernel-test); \
	$(qemu) test $${BOARD:+--board "$$BOARD"} $(cores) $(filter) --images target/images

test-long: tool ## the same with the big counts and the rare ways to boot
	$(all_boards); $(call ready,curl iso gdb fat); $(call images,image,spindle,--features trace); $(call blink,image); $(call images,image,tests fixtures,--features kernel-test); \
	$(qemu) test --long $${BOARD:+--board "$$BOARD"} $(cores) $(filter) --images target/images

test-host: tool ## only the tests that need no board [TEST=filter]
	tools/setup fat
	$(qemu) test --host-only $(filter) --images target/images

torture: tool ## the executor's tests, preempted at random moments [BOARD=... SEEDS=n SEED=s TEST=filter WALL=1]
	$(torture_boards); $(ready); $(call images,image,tests,--features kernel-test); \
	$(qemu) torture $${BOARD:+--board "$$BOARD"} $(cores) $(filter) $(seeds) --images target/images

torture-bugs: tool ## images with a bug each, which torture or a test must catch [TEST=bug]
	set -- pc; $(ready); $(host) exec tools/broken $${TEST:+"$$TEST"}

loom: ## models of the lock-free protocols, with their seeded bugs
	tools/setup host
	$(host) exec tools/loom

sanitize: ## host tests of hal, executor and drivers under the address sanitizer [TEST=file]
	tools/setup host
	$(host) exec tools/sanitize $${TEST:+"$$TEST"}

bench: tool ## instruction counts, the same on every run [BOARD=pc CORES=n FILTER=name]
	$(one_board); $(ready); $(call images,release,bench); $(call blink,release); \
	$(qemu) bench --board "$$BOARD" $(cores) $(filter) --images target/images

gdb: tool ## boot under a debugger that knows the cores [BOARD=pc CORES=n]
	$(one_board); $(call ready,gdb); $(call images,image,spindle,--features trace); \
	$(qemu) gdb --board "$$BOARD" $(cores) --images target/images $(append)

check: ## formatting and clippy, for the host and both instruction sets
	tools/setup check
	$(host) . target/setup/check.env; cargo fmt --all --check
	$(host) . target/setup/check.env; cargo clippy -q --workspace --lib --tests --features spindle-executor/embassy-time,spindle-executor/trace -- -D warnings
	$(host) . target/setup/check.env; cargo clippy -q -p spindle-qemu --all-targets -- -D warnings
	for arch in x86_64 aarch64; do for features in '--features trace' '--features kernel-test'; do \
		tools/image-cargo clippy --arch $$arch -p spindle-kernel --profile image $$features -- -D warnings || exit; \
	done; tools/image-cargo clippy --arch $$arch -p spindle-blink --profile image -- -D warnings || exit; done
	echo "check: formatting and clippy found nothing, on the host and both instruction sets"

doc: ## the documentation of every crate, under target/
	tools/setup image
	$(host) RUSTDOCFLAGS='-D warnings' cargo doc -q --workspace --exclude spindle-kernel --no-deps --features spindle-executor/embassy-time,spindle-executor/trace
	for arch in x86_64 aarch64; do \
		RUSTDOCFLAGS='-D warnings' tools/image-cargo doc --arch $$arch --profile image --no-deps -p spindle-kernel -p spindle-hal -p spindle-boot -p spindle-drivers || exit; \
	done
	echo "doc: begin with target/doc/executor/index.html; the other crates are beside it, those of the images in target/image/*/doc/"

clean: ## remove all that was built
	rm -rf target
