# make alone prints what there is. Every target sets up .venv from requirements/dev.lock by itself.

PYTHON ?= python3
VENV ?= .venv
export NO_MKDOCS_2_WARNING := 1
VENV42 := .venv-spark42
BIN := $(VENV)/bin
JOBS ?= 2
SECONDS ?= 60
N ?= 1000
KILLS ?= 30
CUTS ?= 30
SEED ?=
DATA ?= data
TARGET ?= test

.DEFAULT_GOAL := help
.PHONY: help setup demo run test format synchronous check unit bench bench-daemon bench-pairs bench-runs bench-remote-read bench-data bench-pause bench-api bench-console bench-srmp bench-pgm bench-tls bench-protected bench-checks bench-spark bench-growth conformance crash crash-wcf attacks soak spark-soak proof-spark spark-4.2 model simulate simulate-multicast arrival-stories mutants fuzz interop console-test pictures docs docs-serve docs-test package lock clean pythons
SEEDS ?= 1000
FROM ?= 1


help: ## print this list
	@awk -F ':.*## ' '/^[a-z0-9.-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/.ready: requirements/dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Tiercel needs Python 3.11 or later; $(PYTHON) is older. Run: make PYTHON=python3.11"; exit 2; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "$(PYTHON) cannot create virtual environments. On Debian and Ubuntu run: sudo apt install $$($(PYTHON) -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements/dev.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

setup: $(VENV)/.ready ## make .venv, with everything in it

demo: $(VENV)/.ready ## the story of README on one screen: two machines, a kill, a packet, a table by Spark
	@SHOW=$(SHOW) $(BIN)/python examples/story.py

run: $(VENV)/.ready ## run a queue manager on 127.0.0.1:1801 with its data in DATA (./data)
	$(BIN)/tiercel serve --data $(DATA) $(ARGS)

test: check unit ## formatting, lint, strict types, import direction and all tests

pythons: ## run TARGET (test) with every Python from 3.11 on this machine, each in its own .venv-3.x
	@$(PYTHON) tools/pythons | while read version python; do \
		echo "== Python $$version ($$python)"; \
		$(MAKE) --no-print-directory VENV=.venv-$$version PYTHON=$$python $(TARGET) </dev/null || exit 1; \
	done

check: $(VENV)/.ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: $(VENV)/.ready
	$(BIN)/pytest --numprocesses $(JOBS) --quiet

format: $(VENV)/.ready ## format the code and mend what ruff can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

synchronous: $(VENV)/.ready ## generate the synchronous queues from the asynchronous ones
	$(BIN)/python tools/synchronous.py

bench: $(VENV)/.ready ## measure codec, store, engine, columns, claims, stages, binary XML and signatures, most against something bare
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements/bench.lock
	@$(BIN)/python bench/bench_codec.py
	@echo
	@$(BIN)/python bench/bench_store.py
	@echo
	@$(BIN)/python bench/bench_engine.py
	@echo
	@$(BIN)/python bench/bench_columns.py
	@echo
	@$(BIN)/python bench/bench_claims.py
	@echo
	@$(BIN)/python bench/bench_stages.py
	@echo
	@$(BIN)/python bench/bench_nbfx.py
	@echo
	@$(BIN)/python bench/bench_message_security.py

bench-daemon: $(VENV)/.ready ## measure the daemon: in, out, both, latency, exactly once; beside RabbitMQ (pika, C) if it is installed; ARGS="--quick"
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements/bench.lock
	@$(BIN)/python bench/bench_daemon.py $(ARGS)

bench-runs: $(VENV)/.ready ## CPU time of a message in one process, without sockets; ARGS="--profile" shows where it goes
	@$(BIN)/python bench/bench_runs.py $(ARGS)

bench-pairs: $(VENV)/.ready ## CPU time per message of this tree beside BASE=REVISION, in pairs; ARGS="--cases in --bar 2"
	@test -n "$(BASE)" || { echo "bench-pairs needs a revision to compare with. Run: make bench-pairs BASE=HEAD~1"; exit 2; }
	@$(BIN)/python bench/bench_pairs.py --base $(BASE) $(ARGS)

bench-remote-read: $(VENV)/.ready ## measure remote readers: one, sixteen, and beside a sender
	@$(BIN)/python bench/bench_remote_read.py

bench-data: $(VENV)/.ready ## measure the data endpoint: rows a second, claims, memory, and beside a sender
	@$(BIN)/python bench/bench_data.py

bench-pause: $(VENV)/.ready ## measure how long a sender on port 1801 waits while 128 MiB are staged and published
	@$(BIN)/python bench/bench_pause.py $(ARGS)

bench-api: $(VENV)/.ready ## measure the HTTP API: what it does a second, and what it takes from port 1801
	@$(BIN)/python bench/bench_api.py

bench-console: $(VENV)/.ready ## measure the console with 100,000 messages in Chromium, and what three of them take from port 1801; ARGS="--pairs 9"
	@$(BIN)/python bench/bench_console.py $(ARGS)

bench-srmp: $(VENV)/.ready ## measure messages over HTTP, in and out, beside something bare; ARGS="--idle" for what the listener costs port 1801
	@$(BIN)/python bench/bench_srmp.py $(ARGS)

bench-tls: $(VENV)/.ready ## measure mutual TLS between queue managers beside plain text, in and out
	@$(BIN)/python bench/bench_tls.py $(ARGS)

bench-protected: $(VENV)/.ready ## measure signed and encrypted messages that arrive on port 1801 beside plain ones
	@$(BIN)/python bench/bench_protected.py $(ARGS)

bench-pgm: $(VENV)/.ready ## measure multicast messages beside OpenPGM's own tool; ARGS="--transport udp"
	@$(BIN)/python bench/bench_pgm.py $(ARGS)

bench-growth: $(VENV)/.ready ## up to a million messages, 1,000 sessions, 10,000 queues: start, memory, processor time
	@$(BIN)/python bench/bench_growth.py $(ARGS)
	@echo
	@$(BIN)/python bench/bench_engine.py growth 1000 10000 100000 1000000

$(VENV42)/.ready: requirements/spark42.lock pyproject.toml
	$(PYTHON) -m venv $(VENV42)
	$(VENV42)/bin/pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements/spark42.lock
	$(VENV42)/bin/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

spark-4.2: $(VENV42)/.ready ## run the tests of Spark with PySpark 4.2, the oldest that is supported
	$(VENV42)/bin/pytest --quiet tests/spark

bench-spark: $(VENV)/.ready ## measure format("msmq"): batch reads up to a million messages, streams, latency, memory
	@$(BIN)/python bench/bench_spark.py

conformance: $(VENV)/.ready ## run the suite and print which requirements it covers
	@mkdir -p build
	$(BIN)/pytest --numprocesses $(JOBS) --quiet --junitxml build/conformance.xml
	@$(BIN)/python tools/conformance build/conformance.xml

crash: $(VENV)/.ready ## kill a working queue manager N times (1000) and check what is left
	@PYTHONPATH=tests $(BIN)/python tests/crash/run.py $(N)

crash-wcf: N = 100
crash-wcf: $(VENV)/.ready ## kill a WCF service N (100) times in the middle of an operation: no message lost, none repeated after its commit
	@TIERCEL_WCF_KILLS=$(N) $(BIN)/pytest --quiet tests/wcf/test_kills.py

bench-checks: $(VENV)/.ready ## what message security (WITHOUT=security) or the doubts about peers (belief) cost plain messages
	@$(BIN)/python bench/bench_checks.py $(or $(WITHOUT),security) $(ARGS)

attacks: $(VENV)/.ready ## what strangers try on every port of real daemons, in full; prints a table
	@$(BIN)/python tests/attacks/run.py

soak: N = 100000
soak: TRANSPORT = binary
soak: $(VENV)/.ready ## N (100000) messages between two daemons, KILLS (30) kills and CUTS (30) cuts, TRANSPORT (binary), tls, http or https; SEED=... again
	@$(BIN)/python tests/soak/run.py $(TRANSPORT) $(N) $(KILLS) $(CUTS) $(SEED)

proof-spark: N = 10000
proof-spark: $(VENV)/.ready ## what docs/spark.md promises: N (10000) random schedules without a JVM, twenty daemons in one query, then the kill matrix as one table
	@$(BIN)/python tests/spark_schedules/run.py --schedules $(N) $(if $(SEED),--seed $(SEED))
	@$(BIN)/python tests/spark_schedules/fleet.py $(if $(SEED),--seed $(SEED))
	@$(BIN)/python tests/spark_soak/run.py $(if $(SEED),--seed $(SEED)) $(ARGS)

spark-soak: $(VENV)/.ready ## kill Spark jobs and queue managers at every step of a batch, for every sink; SEED=... again
	@$(BIN)/python tests/spark_soak/run.py $(if $(SEED),--seed $(SEED)) $(ARGS)

model: $(VENV)/.ready ## run the engine against the reference model N times (1000)
	@TIERCEL_MODEL_EXAMPLES=$(N) $(BIN)/pytest --quiet tests/model_based

simulate: $(VENV)/.ready ## run SEEDS (1000) simulated worlds, the first of them FROM (1), then as many with HTTP and with protected messages
	@$(BIN)/python -m tiercel.sim --seeds $(SEEDS) --from $(FROM) --jobs $(JOBS) --enemies
	@$(BIN)/python -m tiercel.sim --seeds $(SEEDS) --from $(FROM) --jobs $(JOBS) --enemies --http
	@$(BIN)/python -m tiercel.sim --seeds $(SEEDS) --from $(FROM) --jobs $(JOBS) --enemies --protected

arrival-stories: SEEDS = 10000
arrival-stories: $(VENV)/.ready ## play SEEDS (10000) stories of arriving messages, the first of them FROM (1), together and one by one, and compare
	@$(BIN)/python tests/binary/arrival_stories.py $(SEEDS) $(FROM)

simulate-multicast: SEEDS = 10000
simulate-multicast: $(VENV)/.ready ## run SEEDS (10000) lossy networks with PGM, the first of them FROM (1)
	@$(BIN)/python tests/pgm/simulation.py $(SEEDS) $(FROM)

mutants: N = 30
mutants: $(VENV)/.ready ## break N (30) lines drawn by SEED, one at a time, and print those that no test notices
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements/mutants.lock
	@$(BIN)/python tools/mutants --count $(N) --jobs $(JOBS) $(if $(SEED),--seed $(SEED)) $(ARGS)

fuzz: $(VENV)/.ready ## fuzz each parser for SECONDS (60)
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements/fuzz.lock
	@for target in $$($(BIN)/python tests/fuzz/targets.py --list); do $(BIN)/python tests/fuzz/targets.py $$target -max_total_time=$(SECONDS) || exit 1; done

.venv-airflow/.ready: requirements/airflow.lock
	$(PYTHON) -m venv .venv-airflow
	.venv-airflow/bin/pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements/airflow.lock
	@touch $@

.PHONY: airflow object-stores
airflow: $(VENV)/.ready .venv-airflow/.ready ## let Apache Airflow parse the example for it; installs it into .venv-airflow
	@$(BIN)/pytest --verbose tests/pipeline/test_airflow.py

.venv-object-stores/.ready: requirements/object-stores.lock
	$(PYTHON) -m venv .venv-object-stores
	.venv-object-stores/bin/pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements/object-stores.lock
	@touch $@

object-stores: $(VENV)/.ready .venv-object-stores/.ready ## write tables to a real S3 server process (moto), with two writers and deaths at every step
	@$(BIN)/pytest --verbose tests/pipeline/test_object_stores.py

.venv-shipping/.ready: requirements/shipping.lock
	$(PYTHON) -m venv .venv-shipping
	.venv-shipping/bin/pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements/shipping.lock
	@touch $@

.PHONY: shipping
shipping: $(VENV)/.ready .venv-shipping/.ready .venv-object-stores/.ready ## run the Spark source where it is not installed (--py-files, a packed environment, Spark Connect), and docs/lake.md on a cluster
	@TIERCEL_SHIPPING=1 $(BIN)/pytest --verbose tests/spark_shipping

interop: $(VENV)/.ready ## let impacket, Samba, Wine, Kerberos, curl, nginx, OpenPGM and .NET (Mono) meet Tiercel; installs them where it can
	@sh tests/interop/prepare.sh $(PYTHON) $(BIN)
	@TIERCEL_INTEROP=1 $(BIN)/pytest --verbose tests/interop tests/rpc/test_kerberos.py tests/remote_read/test_logging_on.py

console-test: $(VENV)/.ready ## click through the console in Chromium, which it installs where it can
	@command -v chromium >/dev/null || { [ "$$(id -u)" = 0 ] && apt-get install --yes --no-install-recommends chromium; } || { echo "Chromium is missing. Run: sudo apt install chromium"; exit 2; }
	@$(BIN)/pytest --quiet tests/console

pictures: $(VENV)/.ready ## draw and photograph the pictures of README and docs/; needs Chromium
	$(BIN)/python tools/pictures

docs: $(VENV)/.ready ## build the documentation in build/site, with its reference from the code; a warning is an error
	$(BIN)/mkdocs build --quiet
	@echo "build/site/index.html"

docs-serve: docs ## the same at http://127.0.0.1:8000, where its search works
	$(BIN)/python -m http.server --bind 127.0.0.1 --directory build/site 8000

docs-test: $(VENV)/.ready ## run every block of code in README and docs/, those that start Spark too
	TIERCEL_SLOW_DOCS=1 $(BIN)/pytest --quiet tests/docs

package: $(VENV)/.ready ## build the wheel and the source archive in dist/
	$(BIN)/python -m hatchling build

COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --no-annotate

lock: $(VENV)/.ready ## make the lock files anew (names, versions and hashes only)
	$(BIN)/pip install --quiet --disable-pip-version-check uv
	for name in dev bench interop kerberos spark42 airflow object-stores shipping; do $(COMPILE) --output-file requirements/$$name.lock requirements/$$name.in || exit 1; done

clean: ## remove .venv and everything built
	rm -rf $(VENV) .venv-* build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
