# Everything runs in a virtual environment of its own; `make setup` is done once, by whoever needs it first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

export OMP_NUM_THREADS ?= 1
unexport FLATFED_SHARE FLATFED_FUZZ FLATFED_BATTERY FLATFED_FEDERATION FLATFED_CLUSTER

.PHONY: setup demo browser proxy federation federation-faults cluster-faults test test-rest shares battery fuzz coverage lint format bench bench-peers soak gallery index evidence docs dist clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt hatchling editables
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation -c constraints.txt -e '.[dev]'
	touch $(READY)

demo: setup
	rm -rf demo
	$(BIN)/flatfed compare digits fedavg fedsam fedasam+swa scaffold feddyn+sam fedgloss+sam fedgmt --config examples/demo.yaml --seeds 0,1 --flatness --out demo
	@echo "the report: $(CURDIR)/demo/report.html"

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Pages are tested in a real browser where there is one, or one can be had.
browser:
	@command -v chromium > /dev/null || { test "$$(id -u)" = 0 && command -v apt-get > /dev/null && \
	  apt-get update -qq && apt-get install -y -qq chromium > /dev/null; } || echo 'no chromium: the tests that open pages are skipped'

# The door of a federation is tested with the real nginx where there is one, or one can be had; it is unpacked, not installed,
# since installing would start a web server.
proxy: setup
	@PATH="$(CURDIR)/$(BIN):$$PATH:/usr/sbin" command -v nginx > /dev/null || { cd $(VENV) && { apt-get download -qq nginx || \
	  { apt-get update -qq && apt-get download -qq nginx; }; } && dpkg -x nginx_*.deb nginx && ln -s ../nginx/usr/sbin/nginx bin/nginx && \
	  bin/nginx -v; } > /dev/null 2>&1 || echo 'no nginx: the tests of a real federation are skipped'

# Three hospitals on this machine: certificates, SuperLink, three sites with tables of their own, ten rounds, the table.
federation: setup proxy
	rm -rf hospitals
	$(BIN)/python examples/hospitals/federation.py hospitals

# What is in this share is said in tests/shares.txt. The linters run beside the tests: the type checker alone would keep one
# core idle for a minute. Three at a time on two cores, as some tests wait.
test: setup browser proxy
	@$(MAKE) --no-print-directory lint & lint=$$!; \
	FLATFED_SHARE=short $(BIN)/python -m pytest -n 3 --dist loadfile; tests=$$?; \
	wait $$lint && exit $$tests

# The longer tests, which `make test` leaves out; the two together are all but what has a target of its own below.
test-rest: setup browser proxy
	FLATFED_SHARE=rest $(BIN)/python -m pytest -n 3 --dist loadfile

# The shares anew, from the times of all tests.
shares: setup browser proxy
	$(BIN)/python -m pytest -n 2 --dist loadfile --junitxml=junit.xml
	$(BIN)/python tests/write_shares.py junit.xml

# A federation on Flower, with more methods; whose SuperLink, sites and nodes are killed, lie, stand still, lose states or
# differ. Each run is compared to the bit with a simulation that has the same losses: about twenty minutes on two cores.
federation-faults: setup proxy
	FLATFED_FEDERATION=1 $(BIN)/python -m pytest tests/flower tests/deploy/test_federation.py

# All tests of engines on Ray too, and a cluster of two nodes: one dies, one comes, too few workers, no driver, a wrong token.
cluster-faults: setup
	FLATFED_CLUSTER=1 $(BIN)/python -m pytest -k "ray" tests/engines tests/cli/test_engines.py

# The methods with every setting that a test knows, where `make test` takes a design of them; and every table and figure of the
# papers on synthetic data, where `make test-rest` takes a third.
battery: setup
	FLATFED_BATTERY=1 $(BIN)/python -m pytest -n 2 tests/methods tests/core/test_probe.py tests/core/test_local_by_name.py \
	  tests/flatness/test_ends.py tests/runs/test_kill.py tests/models tests/docs/test_walks.py \
	  tests/studies/test_preset_items.py

# The tests that draw examples, with new ones (a failure prints how to have it again), and readers of bytes and texts
# under inputs that are steered by coverage. A finding fails it. It takes about a quarter of an hour on two cores, a fifth of
# that for the readers.
FUZZ_RUNS ?= 20000
FUZZ_READY := $(VENV)/.fuzz-ready

$(FUZZ_READY): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation -c constraints.txt -e '.[fuzz]'
	touch $(FUZZ_READY)

fuzz: $(FUZZ_READY)
	FLATFED_FUZZ=1 $(BIN)/python -m pytest -n 2 -m hypothesis
	$(BIN)/python tests/fuzz/run_harnesses.py $(FUZZ_RUNS)

# The tests again with the lines they reach counted, which takes half as long again.
coverage: setup browser proxy
	$(BIN)/python -m pytest -n 2 --dist loadfile --cov --cov-report=term

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup
	$(BIN)/python bench/run.py

# Each peer has an environment of its own; their figures mean something only beside flatfed's of the same run.
.venv-%/.ready: bench/peers/requirements-%.txt
	$(PYTHON) -m venv .venv-$*
	.venv-$*/bin/python -m pip install --quiet --disable-pip-version-check -r bench/peers/requirements-$*.txt
	touch $@

bench-peers: setup .venv-pfl/.ready .venv-flower/.ready
	$(BIN)/python bench/run_peers.py

# 20,000 rounds under kills, signals, full disks and lost streams, compared to the bit with an undisturbed run: half an hour.
soak: setup
	$(BIN)/python bench/soak

gallery: setup
	$(BIN)/python docs/write_gallery.py

# What is made from the code: the index of methods, who fits which need, the references of commands and names, and of the papers.
index: setup
	$(BIN)/python docs/write_index.py
	$(BIN)/python docs/write_choosing.py
	$(BIN)/python docs/write_cli.py
	$(BIN)/python docs/write_api.py
	$(BIN)/python docs/write_claims.py
	$(BIN)/python docs/write_papers.py
	$(BIN)/python docs/write_hours.py

# The pages of docs/evidence, their pictures and a part of the README, from the compact results in studies.
evidence: setup
	$(BIN)/python docs/write_evidence.py

docs: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation -c constraints.txt -e '.[docs]'
	$(BIN)/sphinx-build -q -W --keep-going docs site
	@echo 'the site is in site/index.html'

# Wheel and source, checked; then the wheel is installed as docs/install.md says, in a new environment without CUDA, and used there.
DIST_READY := $(VENV)/.dist-ready

$(DIST_READY): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation -c constraints.txt -e '.[dist]'
	touch $(DIST_READY)

dist: $(DIST_READY)
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist > /dev/null
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/python tests/try_wheel.py dist

clean:
	rm -rf $(VENV) .venv-pfl .venv-flower demo gallery site dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
