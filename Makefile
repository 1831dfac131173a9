# `make help` lists the targets. Each target first sets up what it needs. Expensive results lie in the user's cache folder.
.DEFAULT_GOAL := help
PYTEST_UNIT = .venv/bin/pytest tests/unit -q --numprocesses auto --maxprocesses 8 --dist worksteal
.PHONY: help venv setup try unit coverage sanitize lint test ui-test test-storage crash-test fault-test walkthrough queue-test storm hudi-storm hudi-matrix bench bench-apply bench-controller bench-cores bench-driver bench-forecast bench-hudi bench-hudi-plan bench-look bench-page bench-policy bench-reading bench-released bench-storage bench-stripes demo sandbox-up sandbox-down sandbox-status sandbox-image audit wheel sbom image-sizes release-images test-arm64 test-supply test-olm playground sql argocd crds chart-readme krew olm lock

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

venv: ## Python only: .venv with the locked requirements, the tools and the command compaction-operator
	@sandbox/prerequisites.sh python
	@sandbox/python.sh

setup: ## Everything that tests and sandbox need: packages, .venv, Kubernetes, images (as root)
	@sandbox/setup.sh

try: venv ## A tour in a minute: plan, compact and read back a real Hive table (no root, no cluster)
	@.venv/bin/python -m sandbox.demo.tour

unit: venv ## The unit tests on all cores (no root, no cluster, no Java); ARGS="-k name" are pytest's own
	@$(PYTEST_UNIT) $(ARGS)

coverage: venv ## The unit tests with the product's branch coverage; the lines are in build/coverage/html
	@$(PYTEST_UNIT) --cov --cov-report term --cov-report html

sanitize: venv ## The compiled kernels under AddressSanitizer: their tests, then damaged files for SECONDS=600 from SEED=1 on
	@sandbox/sanitize.sh $(or $(SECONDS),600) $(or $(SEED),1)

lint: venv ## ruff, the format, mypy --strict, the layers, shellcheck
	@sandbox/lint.sh

test: ## All tests, those on the sandbox's cluster included (as root); the one test command
	@sandbox/test.sh

ui-test: venv ## The web page in headless Chromium (installs it from Debian's packages, as root); PICTURES=docs renews those of the documentation
	@sandbox/prerequisites.sh browser
	@PICTURES=$(PICTURES) .venv/bin/pytest tests/ui -q $(ARGS)

test-storage: venv ## Each store on real servers: HDFS with and without Kerberos, S3, local disk; ARGS="-k name" are pytest's own
	@.venv/bin/pytest tests/unit/storage tests/integration/storage -q $(ARGS)

crash-test: ## Break the operator at RUNS=200 steps from SEED=1 on (HIVE=3.1.3, 4.0.1 or both; STORAGE=file, hdfs or (4.0.1) s3; as root)
	@sandbox/on-plane.sh tests.soak.crash --runs $(or $(RUNS),200) --seed $(or $(SEED),1) --hive $(or $(HIVE),3.1.3) --storage $(or $(STORAGE),file)$(if $(MINUTES), --minutes $(MINUTES))

fault-test: ## Upgrade and roll back under work, from commit EARLIER=…; then outages of the node, the API server, the image (as root)
	@EARLIER=$(EARLIER) sandbox/on-cluster.sh tests/e2e/upgrade.py tests/e2e/outages.py $(ARGS)

walkthrough: ## The commands of docs/walkthrough.md, from nothing to two monitored warehouses on the sandbox (as root)
	@sandbox/on-cluster.sh tests/e2e/walkthrough.py -o log_cli=true -o log_cli_level=INFO $(ARGS)

queue-test: ## ENTRIES=200 of Hive 4's queue, with processes killed at each step of an entry's way (SEED=1; as root)
	@sandbox/on-plane.sh tests.soak.queue --entries $(or $(ENTRIES),200) --seed $(or $(SEED),1)

storm: ## Readers against writers, compactions and cleanups for MINUTES=20 (SEED=…, HIVE=3.1.3, 4.0.1 or both; STORAGE=file, hdfs or (4.0.1) s3; as root)
	@sandbox/on-plane.sh tests.soak.storm --minutes $(or $(MINUTES),20) --hive $(or $(HIVE),both) --storage $(or $(STORAGE),file)$(if $(SEED), --seed $(SEED))

hudi-storm: ## A live writer against compactions of Hudi tables, KILLS=20 drivers killed (SEED=…, HUDI=1.0.2, 1.2.0 or both; as root)
	@sandbox/on-plane.sh tests.soak.hudi_storm --kills $(or $(KILLS),20) --hudi $(or $(HUDI),both)$(if $(SEED), --seed $(SEED))

hudi-matrix: venv ## Each release of Hudi writes, each compacts, each reads after every step (with the reader without a JVM): the table in docs/hudi.md (ARGS="--writer 0.15.0": some cells)
	@.venv/bin/python -m tests.soak.hudi_matrix $(ARGS)

bench: venv ## The engine against cp, Hive and Spark: bench/out/engine.json, table and plot in docs/ (QUICK=1: 5 minutes; JOBS=a,c)
	@.venv/bin/python -m bench.engine $(if $(QUICK),--quick) $(if $(JOBS),--jobs $(JOBS)) $(if $(QUICK)$(JOBS),,--plot docs/engine.svg --document docs/performance.md)

bench-cores: venv ## Job c of `make bench` on one core and on two: bench/out/cores.json
	@.venv/bin/python -m bench.cores --rounds $(or $(ROUNDS),5)

bench-driver: venv ## CPU time and memory of a driver's process for a tiny table, alone and with Spark: bench/out/driver.json
	@.venv/bin/python -m bench.driver --rounds $(or $(ROUNDS),5)

bench-forecast: venv ## What a plan forecasts of TABLES=60 random tables, and of one with PARTITIONS=200, against what their compaction then takes: bench/out/forecast.json
	@.venv/bin/python -m bench.forecast --tables $(or $(TABLES),60) --partitions $(or $(PARTITIONS),200)

bench-hudi: venv ## Write amplification of Hudi tables by how they are compacted, COMMITS=64: bench/out/hudi.json, plot in docs/
	@.venv/bin/python -m bench.hudi --commits $(or $(COMMITS),64) --hudi $(or $(HUDI),both) --plot docs/hudi-write-amplification.svg

bench-hudi-plan: venv ## Planning on a Hudi table with many log files, FILES=10000 (HUDI=1.0.2, 1.2.0 or both): bench/out/hudi-plan.json
	@.venv/bin/python -m bench.hudi_plan --files $(or $(FILES),10000) --hudi $(or $(HUDI),both)

bench-look: venv ## What a policy's look at TABLES=10000 costs, of which one in a hundred has changed: bench/out/look.json
	@.venv/bin/python -m bench.look --tables $(or $(TABLES),10000)

bench-page: venv ## How long pages of the web page take with RESOURCES=5000 and TABLES=10000: bench/out/page.json
	@.venv/bin/python -m bench.page --resources $(or $(RESOURCES),5000) --tables $(or $(TABLES),10000)

bench-policy: venv ## A fleet of 2,000 tables for a month through a policy, Hive's thresholds and an oracle: bench/out/policy.json, plot in docs/ (QUICK=1: 200 tables, a week; SHARE=0.25, SEED=1)
	@OPENBLAS_NUM_THREADS=1 .venv/bin/python -m bench.policy $(if $(QUICK),--tables 200 --days 7) $(if $(SHARE),--share $(SHARE)) $(if $(SEED),--seed $(SEED)) $(if $(QUICK)$(SHARE),,--plot docs/policy.svg)

bench-reading: venv ## CPU time of Hive, Spark and pyarrow to read what the engine and Hive wrote: bench/out/reading.json
	@.venv/bin/python -m bench.reading --rounds $(or $(ROUNDS),7)

bench-storage: venv ## Listing PARTITIONS=10000 and compacting on HDFS and S3 against a local disk: bench/out/storage.json
	@.venv/bin/python -m bench.storage --partitions $(or $(PARTITIONS),10000)

bench-stripes: venv ## Which small stripes a compaction should join: what each rule makes of COMMITS=200: bench/out/stripes.json
	@.venv/bin/python -m bench.stripes --commits $(or $(COMMITS),200)

bench-controller: venv ## Jobs a minute and the controller's CPU with LENGTHS="100 1000 5000" that wait: bench/out/controller.json
	@.venv/bin/python -m bench.controller --lengths $(or $(LENGTHS),100 1000 5000)

bench-released: venv ## Seconds from a reader's end to the end of the directories, with CLEANUPS=1000 of 20 tables that wait: bench/out/controller.json
	@.venv/bin/python -m bench.released --cleanups $(or $(CLEANUPS),1000)

bench-apply: venv ## Seconds from kubectl apply to published on the running sandbox, stage by stage, ROUNDS=5: bench/out/controller.json (as root)
	@.venv/bin/python -m bench.apply --rounds $(or $(ROUNDS),5)

demo: ## The whole story on the sandbox (STORAGE=file, hdfs or s3), or with DEMO_CLUSTER=existing on the cluster of KUBECONFIG
	@STORAGE=$(STORAGE) sandbox/demo/demo.sh

sandbox-up: ## Start the sandbox: a real Kubernetes node and a real Hive metastore on this machine (STORAGE=file, hdfs or s3; as root)
	@STORAGE=$(STORAGE) sandbox/cluster/up.sh

playground: ## The sandbox with the operator and the tables of the samples, to try things by hand (STORAGE=file, hdfs or s3; as root)
	@STORAGE=$(STORAGE) sandbox/cluster/up.sh
	@.venv/bin/python -m sandbox.playground

sql: ## A small SQL client for the playground's Hive tables (SQL="SELECT …", AS=alice; without SQL it asks)
	@.venv/bin/python -m sandbox.playground sql $(if $(AS),--user $(AS)) $(if $(SQL),-- "$$SQL")

sandbox-down: ## End the sandbox and forget its data
	@sandbox/cluster/down.sh

sandbox-status: ## What the sandbox runs and how to reach it
	@sandbox/cluster/status.sh

sandbox-image: venv ## Give the running sandbox the operator's image of the sources as they are now
	@sandbox/cluster/up.sh

audit: venv ## Known vulnerabilities of what the locks pin, by PyPI's advisories, or without a server by those in ADVISORIES=FOLDER; ARGS are pip-audit's
	@ADVISORIES="$(ADVISORIES)" sandbox/supply/audit.sh $(ARGS)

wheel: venv ## The wheel of these sources, the same bytes each time: build/wheel
	@sandbox/supply/wheel.sh build/wheel

sbom: venv ## What the wheel and the three images hold, as CycloneDX and SPDX, and under which licences: build/sbom (as root; builds syft once)
	@sandbox/supply/sbom.sh

image-sizes: venv ## The sizes of the three images by layer, as in docs/supply-chain.md (as root)
	@sandbox/cluster/images.sh build operator hive controller
	@.venv/bin/python -m sandbox.supply.layers "$$(sandbox/cluster/images.sh layout)" \
	  compaction-operator="$$(sandbox/cluster/images.sh name operator)" \
	  compaction-operator-hive="$$(sandbox/cluster/images.sh name hive)" \
	  compaction-operator-controller="$$(sandbox/cluster/images.sh name controller)"

release-images: venv ## Publish this commit's images to REGISTRY=HOST/PATH, signed and attested by COSIGN_KEY=FILE; FORCE=1 moves a tag, ARCH="amd64 arm64" is for both: docs/supply-chain.md (as root)
	@ARCH="$(ARCH)" COSIGN_KEY="$(COSIGN_KEY)" SOURCE="$(SOURCE)" BUILDER="$(BUILDER)" FORCE="$(FORCE)" sandbox/supply/release.sh "$(REGISTRY)"

test-arm64: venv ## The images for arm64: their programs are for it, and run under emulation (builds them in half an hour, as root)
	@.venv/bin/pytest tests/soak/arm64.py -q -o timeout=0 $(ARGS)

test-supply: venv ## Signing, attestations and their verification against a local registry; the controller's image made twice (builds cosign once, as root)
	@.venv/bin/pytest tests/soak/supply.py -q $(ARGS)

test-olm: venv ## OLM's bundle by OLM's own validator and types (builds the validator once)
	@.venv/bin/pytest tests/soak/olm.py -q $(ARGS)

crds: ## Copy crds/ into the chart, which Argo CD reads from git
	@cp crds/compaction.dev_*.yaml charts/compaction-operator/files/crds/

chart-readme: venv ## Write the chart's README from its values.yaml
	@.venv/bin/python -m sandbox.chart_readme

argocd: venv ## Write Argo CD's ConfigMap from the Lua of manifests/argocd
	@.venv/bin/python -m sandbox.argocd

krew: venv ## Write krew's archive (build/krew) and manifest (manifests/krew) of `kubectl compaction`
	@.venv/bin/python -m sandbox.krew

olm: venv ## Write OLM's bundle (manifests/olm) from manifests/default, crds/ and the chart, for IMAGE=YOUR/compaction-operator:0.1.0
	@.venv/bin/python -m sandbox.olm.bundle $(IMAGE)

lock: ## Renew the lock files from pyproject.toml and sandbox/supply/tools.in (needs uv)
	uv pip compile -q pyproject.toml --extra dev --generate-hashes --no-emit-index-url --no-emit-find-links --python-version 3.11 -o requirements.lock
	uv pip compile -q pyproject.toml --generate-hashes --no-emit-index-url --no-emit-find-links --python-version 3.11 -c requirements.lock -o operator/requirements.lock
	uv pip compile -q sandbox/supply/tools.in --generate-hashes --no-emit-index-url --no-emit-find-links --python-version 3.11 -c requirements.lock -o sandbox/supply/tools.lock
