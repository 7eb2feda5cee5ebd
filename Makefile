# make demo           start a cluster, break a disk, show what happens, stop everything
# make test-fast      the units: no process, no JVM, no container; within a minute
# make test           every test that this machine can run, then every check
# make test-compose   the cluster of Docker Compose only (needs an engine)
# make soak           the long tail of directory failures, which make test leaves out
# make simulate       histories of a whole cluster in one process: SEEDS=1..1000
# make night          all that takes long, in HOURS=8; it can be ended, and goes on; writes docs/endurance.md
# make bench          measure, print a table, write JSON
# make atlas          run the shipped plans on releases of Apache Kafka and on ours, write docs/atlas.md
# make lint           format and lint checks, types, import contracts, links between pages, names
# make docs           the pages of docs/ as a site, in build/site
# make package-replay  jbodlab replay as an archive for spark-submit, in dist/
# make wheel           the packages for x86_64 and aarch64, in dist/, to be installed elsewhere
# make env            the virtual environment in .venv; every target above makes it where needed
# make clean          remove the environment and everything that was generated
#
# DEMO_ARGS, PYTEST_ARGS, SIMULATE_ARGS, NIGHT_ARGS, BENCH_ARGS and ATLAS_ARGS are handed on; PYTHON names the interpreter for .venv.

SHELL := /bin/bash
BIN := .venv/bin
# All that the commands of README.md need.
DEMO_EXTRAS := analytics,fast,pkcs12
TEST_EXTRAS := analytics,dev,fast,fuse,s3,webhdfs
DOCS_EXTRAS := docs
# Tests wait as much as they compute: some more processes than cores.
TEST_WORKERS := 3
# A run that hangs is cut off, and names the tests that it had started.
TEST_DEADLINE := 75m

SEEDS := 1..1000
HOURS := 8

# What was translated once is kept, tests included: the next run begins sooner.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo wheel package-replay test test-fast test-compose soak simulate night bench atlas lint docs env env-demo clean
.DEFAULT_GOAL := demo

# `exec` leaves no shell in between, so that Ctrl-C reaches the program itself.
demo: env-demo
	@exec $(BIN)/jbodlab demo $(DEMO_ARGS)

# Both run to their end: a format error hides no failed test, and no failed test a format error.
test: env
	@timeout --foreground --kill-after=60s $(TEST_DEADLINE) \
	$(BIN)/python -m pytest -n $(TEST_WORKERS) --dist loadgroup --no-loadscope-reorder \
	  --durations=25 $(PYTEST_ARGS); tests=$$?; \
	case $$tests in 124|137) echo "make test: cut off after $(TEST_DEADLINE)" >&2; \
	  rm -f .pytest_cache/v/cache/lastfailed;; esac; \
	$(MAKE) --no-print-directory lint && exit $$tests

test-fast: env
	$(BIN)/python -m pytest -m unit -n $(TEST_WORKERS) --dist worksteal -q $(PYTEST_ARGS)

test-compose: env
	$(BIN)/python -m pytest -m compose $(PYTEST_ARGS)

soak: env
	$(BIN)/python -m pytest -m soak $(PYTEST_ARGS)

simulate: env
	@exec $(BIN)/python -m tests.simulation --seeds $(SEEDS) $(SIMULATE_ARGS)

night: env
	@exec $(BIN)/python -m tests.night --hours $(HOURS) $(NIGHT_ARGS)

bench: env
	@exec $(BIN)/python -m bench $(BENCH_ARGS)

# It goes on where it was ended, and begins anew where nothing is left: three runs of each plan on each engine.
# ATLAS_ARGS="--engine jbodlab --engine kafka:4.3.1" is for these engines only, ATLAS_ARGS="--budget 1h" begins no run later.
atlas: env
	@exec $(BIN)/python -m bench.atlas $(ATLAS_ARGS)

package-replay:
	@python3 scripts/package_replay.py

wheel:
	@python3 scripts/build_wheels.py

lint: env
	@failed=; for check in "ruff check ." "ruff format --check ." mypy lint-imports "python scripts/check_links.py" "python scripts/check_names.py"; do \
	  echo "$$check"; $(BIN)/$$check || failed="$$failed, $$check"; \
	done; if [ -n "$$failed" ]; then echo "lint failed: $${failed#, }" >&2; exit 1; fi

docs:
	@scripts/make_env.sh $(DOCS_EXTRAS)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict && \
	  echo "build/site/index.html; its search needs a web server: python3 -m http.server -d build/site"

env:
	@scripts/make_env.sh $(TEST_EXTRAS)

env-demo:
	@scripts/make_env.sh $(DEMO_EXTRAS)

clean:
	@scripts/make_env.sh --remove
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	rm -rf demo-output bench/results spark-warehouse metastore_db derby.log
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
