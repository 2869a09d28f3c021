# workcell: see README.md. `make demo` and `make test` need python3 (3.11+), git and make, and set up the rest in .venv.
SHELL = /bin/sh
PREFIX ?= /usr/local
PYTHON ?= python3
VENV = .venv
VENV_PYTHON = $(VENV)/bin/python
VECTORS ?= $(or $(WORKCELL_VECTORS),$(wildcard ../shared/vectors))
JOBS ?= auto
# Pinned versions where a run must be repeatable, the newest elsewhere.
CONSTRAINTS ?= $(if $(CI),constraints.txt,)

EXECUTABLES = $(notdir $(wildcard bin/workcell*))
# They read nothing outside the standard library, so they need no site-packages.
BARE = workcell-help workcell-session-list workcell-session-logs workcell-session-show workcell-session-timeline
LIB = $(DESTDIR)$(PREFIX)/lib/workcell
COMPLETIONS = $(DESTDIR)$(PREFIX)/share/bash-completion/completions
MAN = $(DESTDIR)$(PREFIX)/share/man
SECTIONS = 1 5 7

.PHONY: all help demo image test test-agents soak bench check lint validators man dist install uninstall clean

all: help

help:
	@echo 'make demo       run the main job on a repository of its own and show it'
	@echo 'make test       all tests; WORKCELL_SCALE=1 for the full counts'
	@echo 'make test-agents  real coding agents and full-screen programs in sessions; installs them, 1 GB, at the first run'
	@echo 'make check      linters, types, generated files'
	@echo 'make soak       the large counts'
	@echo 'make bench      how fast it is, as ratios within one run'
	@echo 'make validators generate lib/workcell/validators.py from schema/'
	@echo 'make man        generate docs/man1/ from the headers of bin/'
	@echo 'make dist       build a wheel'
	@echo 'make image      build the container image workcell:local with podman, from files of this machine: workcell-image(7)'
	@echo 'make install    install under PREFIX ($(PREFIX)) for the interpreter PYTHON ($(PYTHON)); DESTDIR for packagers'
	@echo 'make uninstall  remove what install put there'
	@echo 'make clean      remove what was made here'

$(VENV)/.run: requirements.txt constraints.txt tools/set-up
	tools/set-up $(VENV) requirements.txt $(CONSTRAINTS)
	touch $@

$(VENV)/.test: requirements.txt requirements-test.txt constraints.txt tools/set-up
	tools/set-up $(VENV) requirements-test.txt $(CONSTRAINTS)
	touch $(VENV)/.run $@

demo: $(VENV)/.run
	@$(VENV_PYTHON) tools/demo.py

test: $(VENV)/.test
	$(if $(VECTORS),WORKCELL_VECTORS=$(abspath $(VECTORS)) ,)$(VENV_PYTHON) -m pytest -q -n $(JOBS) --dist loadgroup tests

# ONLY=claude runs the tests of one agent or program.
test-agents: $(VENV)/.test
	tools/need vim less htop
	$(VENV_PYTHON) tests/agents/run.py -n $(JOBS) $(if $(ONLY),-k '$(ONLY)')

image: $(VENV)/.run
	@$(VENV_PYTHON) tools/make_image.py

bench: $(VENV)/.test
	$(VENV_PYTHON) tests/bench/bench.py

soak: $(VENV)/.test
	WORKCELL_SCALE=1 $(VENV_PYTHON) -m pytest -q -n $(JOBS) --dist loadgroup tests -k 'soak or many or parallel'

check: lint

lint: $(VENV)/.test
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/mypy
	$(VENV_PYTHON) tools/gen_validators.py --check
	$(VENV_PYTHON) tools/gen_man.py --check
	$(VENV_PYTHON) tools/gen_completion.py --check
	tools/need shellcheck shfmt
	shellcheck bin/workcell tools/set-up tools/need .ci/run docs/completion/workcell.bash
	shfmt -d bin/workcell tools/set-up tools/need .ci/run docs/completion/workcell.bash

validators:
	$(PYTHON) tools/gen_validators.py

man:
	$(PYTHON) tools/gen_man.py
	$(PYTHON) tools/gen_completion.py

dist: $(VENV)/.test
	$(VENV)/bin/pip wheel -q --no-deps --no-build-isolation -w dist .

# The first line of each executable names the interpreter itself, isolated from the caller's environment: a version manager's
# shim on PATH would cost more than the command.
install:
	@interpreter=$$($(PYTHON) -c 'import sys; print(sys.executable)') && \
	case "$$interpreter" in *' '*) echo "make install: $$interpreter: a path with blanks cannot stand in a first line; name another with PYTHON=" >&2; exit 1;; esac && \
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "make install: $(PYTHON) is older than 3.11; name another with PYTHON=")' && \
	$(PYTHON) -c 'import cryptography' 2>/dev/null || { echo 'make install: $(PYTHON) has no package cryptography; install requirements.txt for it, or name another with PYTHON=' >&2; exit 1; }; \
	install -d '$(DESTDIR)$(PREFIX)/bin' '$(LIB)/workcell/runtimes' '$(LIB)/adapter' '$(LIB)/schema' $(foreach section,$(SECTIONS),'$(MAN)/man$(section)') && \
	for name in $(EXECUTABLES); do \
		flags=-I; case ' $(BARE) ' in *" $$name "*) flags='-IS' ;; esac; \
		sed "1s|^#!.*python3.*|#!$$interpreter $$flags|" "bin/$$name" > '$(DESTDIR)$(PREFIX)/bin/'"$$name" && \
		chmod 0755 '$(DESTDIR)$(PREFIX)/bin/'"$$name" || exit 1; \
	done && \
	install -m 0644 lib/workcell/*.py '$(LIB)/workcell' && \
	install -m 0644 lib/workcell/runtimes/*.py '$(LIB)/workcell/runtimes' && \
	install -m 0755 adapter/pty_adapter.py adapter/file_trace.py adapter/container_entry.py adapter/self_test.py '$(LIB)/adapter' && \
	install -m 0644 schema/*.json '$(LIB)/schema' && \
	$(foreach section,$(SECTIONS),install -m 0644 docs/man$(section)/*.$(section) '$(MAN)/man$(section)' && )\
	"$$interpreter" -I -m compileall -q -s '$(DESTDIR)' '$(LIB)/workcell' '$(LIB)/adapter' && \
	install -d '$(COMPLETIONS)' && install -m 0644 docs/completion/workcell.bash '$(COMPLETIONS)/workcell' && \
	echo "installed under $(DESTDIR)$(PREFIX) for $$interpreter"

uninstall:
	cd '$(DESTDIR)$(PREFIX)/bin' && rm -f $(EXECUTABLES)
	$(foreach section,$(SECTIONS),cd '$(MAN)/man$(section)' && rm -f $(notdir $(wildcard docs/man$(section)/*.$(section)));)
	rm -f '$(COMPLETIONS)/workcell'
	rm -rf '$(LIB)'

clean:
	rm -rf $(VENV) .demo build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis lib/workcell.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
