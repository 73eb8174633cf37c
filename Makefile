# Railyard. `make up` plays the example site on this machine; `make help` lists the rest.
SHELL := /bin/bash
PY := .venv/bin/python
SITE ?=

.DEFAULT_GOAL := help
.PHONY: docs switch-pace sbom catalogue mutants campaign bench bench-hosts bench-sites bench-engine bench-fleet bench-quick bench-state lab-pods lab-vm lab-vm-pods stories help setup first up down clean test check fast format goldens

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

setup: first ## virtual environment, system packages, engine, cluster tools, registry (built once)
	@$(PY) -m lab.prerequisites --all
	@$(PY) -m lab.registry.build

first: # what the first site needs; all of it is built once
	@bash lab/bootstrap.sh
	@$(PY) -m compileall -q -j 0 components lab railyard_rdma stacks # hosts of the lab read them and may not write
	@$(PY) -m lab.prerequisites
	@$(PY) -m lab.engine.install
	@$(PY) -m lab.cluster.build

up: first ## play the site and run `pulumi up` (SITE=examples/<name>, or one of its files; default the dev stack)
	@$(PY) -m lab.up $(SITE)

down: ## stop the lab; leaves nothing running (SITE=... as for up)
	@if [ -x $(PY) ]; then $(PY) -m lab.down $(SITE); fi

clean: down ## stop the lab and forget its state and the stack's; refuses where another stack is there
	@python3 lab/clean.py

test: setup ## the whole suite, as CI runs it
	@$(PY) -m lab.engine.yaml_host # the workers of the suite have no network to fetch it
	@$(PY) -c 'from lab import debian; debian.unpacked(packages=debian.MONITORING_PACKAGES)' # nor this
	@$(PY) -m lab.suite

stories: setup ## the other examples, each from `make up` to `destroy`; slow, and not part of `make test`
	@.venv/bin/pytest -q -m story tests/site tests/over_ssh

lab-pods: ## the plan's manifests and jobs on two real nodes in namespaces: kubelet, containerd, Multus, MPI (as root)
	@bash lab/bootstrap.sh
	@$(PY) -m lab.pods.story

lab-vm: ## two real kernels in QEMU: hosts' scripts, reboot, undo; then lab-vm-pods (as root)
	@bash lab/bootstrap.sh
	@$(PY) -m lab.vm.story
	@$(PY) -m lab.vm.pods_story

lab-vm-pods: ## the second part of lab-vm: Docker and MPI, pods with real VFs, ib_write_bw between pods (as root)
	@bash lab/bootstrap.sh
	@$(PY) -m lab.vm.pods_story

switch-pace: setup ## the first update of 64 ports on each switch system whose times are known, at full times: a nightly run
	@RAILYARD_PACE=1 $(PY) -m pytest -q -s tests/over_ssh/test_switch_pace.py

bench: setup ## what several switches cost, beside a plain netmiko loop; wants an idle machine
	@$(PY) -m bench.switches
	@$(PY) -m bench.switch_growth

bench-hosts: setup ## what 10, 50 and 200 hosts cost, beside Ansible and pyinfra; hours on two cores
	@$(PY) -m bench.hosts --hosts 10 50 200 --runs 5 --write

bench-sites: ## what sites of 100 to 2,000 hosts cost to load, check and plan, beside the floor of reading them
	@bash lab/bootstrap.sh
	@$(PY) -m bench.site_cost

bench-engine: setup ## what the preview of 1,000 hosts costs, beside the bare engine with as many resources
	@$(PY) -m bench.engine_cost

bench-fleet: setup ## 100 and 1,000 emulated hosts through the engine, beside the bare engine; wants an idle machine
	@$(PY) -m bench.fleet
	@$(PY) -m bench.fleet --hosts 1000 --planned --kill

bench-quick: setup ## limits of connections, commands, resources and bytes of state, a host; part of `make test`
	@$(PY) -m pytest -q tests/engine/test_fleet_costs.py

bench-state: setup ## bytes of state that an update writes, by backend and checkpoints, and what a kill loses
	@$(PY) -m bench.state_cost

dist: ## sdist, wheel and hashes of a release, at build/dist; TAG=v1.2.3 checks that it may be one
	@bash lab/bootstrap.sh
	@$(PY) -m ci.dist

sbom: ## the product's Python packages in CycloneDX form, at build/sbom.cdx.json
	@bash lab/bootstrap.sh
	@$(PY) -m venv build/sbom-tools
	@build/sbom-tools/bin/pip install -q --disable-pip-version-check --require-hashes -r ci/sbom-requirements.lock
	@$(PY) -c 'from components.project.write import runtime_pins; print(runtime_pins())' > build/sbom-packages.txt
	@build/sbom-tools/bin/cyclonedx-py requirements build/sbom-packages.txt --pyproject pyproject.toml --output-file build/sbom.cdx.json

build/docs-tools/ready: ci/docs-requirements.lock
	@python3 -m venv build/docs-tools
	@build/docs-tools/bin/pip install -q --disable-pip-version-check --require-hashes -r $<
	@touch $@

docs: build/docs-tools/ready ## the docs site, at build/docs/site, with the schema of the site file; a broken link is an error
	@NO_MKDOCS_2_WARNING=1 build/docs-tools/bin/mkdocs build --strict

catalogue: ## what of the catalogue is behind its makers' lists, as a diff; wants a network
	@bash lab/bootstrap.sh
	@$(PY) -m ci.catalogue

mutants: ## would a test notice a wrong line? ROOM=judge (or another of mutants/rooms.py), SAMPLE=200 for fewer changes, SEED=2 for others
	@bash lab/bootstrap.sh
	@$(PY) -m mutants $(ROOM) $(if $(SAMPLE),--sample $(SAMPLE)) $(if $(SEED),--seed $(SEED))

campaign: ## random histories judged by ten invariants: TIER=1|2|3|4 SEEDS=<first>..<last> or a count, JOBS=2
	@bash lab/bootstrap.sh
	@$(PY) -m campaign --tier $(TIER) --seeds $(SEEDS) $(if $(JOBS),--jobs $(JOBS))

check: ## format, lint, types, import contracts, fast tests
	@bash lab/bootstrap.sh
	@.venv/bin/ruff format --check .
	@.venv/bin/ruff check .
	@.venv/bin/pyright
	@.venv/bin/lint-imports
	@$(MAKE) --no-print-directory fast

fast: ## tests that need neither lab, engine nor cluster
	@.venv/bin/pytest -q -m "not lab and not engine and not cluster and not site and not story and not pods and not vm"

format: ## format and mend what ruff can mend
	@.venv/bin/ruff format .
	@.venv/bin/ruff check --fix .

goldens: ## write the golden files again; read the diff before you commit it
	@RAILYARD_GOLDENS=1 .venv/bin/pytest -q -m "not lab and not engine and not cluster and not site and not story and not pods and not vm" tests
