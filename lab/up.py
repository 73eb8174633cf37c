"""`make up`: from a clone to a proven cluster, in the lab, with the real engine.

Prepares the engine, the cluster's programs and the emulated devices, recovers a stack whose
engine was killed, runs `pulumi up`, and ends with what changed and what was proven.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, cast

import yaml
from rich.console import Console

from components.checks.site import check_config_value
from components.core.errors import RailyardError, UsageError
from components.core.problem import Json
from components.core.record import record
from components.model.cluster import ClusterSpec
from components.model.kubernetes import ExistingPlane
from components.reading.load import CONFIG_KEY
from components.reading.site_path import CONFIG_FILE, SITE_KEY
from components.update.secrets import secret_names
from lab import control
from lab.cache import cache_root
from lab.cluster.artefact import checksums
from lab.cluster.build import ensure_binaries
from lab.engine.env import EnvSettings, plan_environment, write_env
from lab.engine.install import ensure_engine
from lab.engine.recover import Pulumi, recover
from lab.kubespray.source import ensure_ansible
from lab.outcome import outline_of, print_outcome
from lab.prerequisites import get_programs, programs_of
from lab.site import (
    DEV_EXAMPLE,
    DEV_STACK,
    SITE_FILE,
    k3s_source,
    lab_file,
    load_document,
    name_site,
    overlay,
    secrets_of,
    write_lab_file,
)
from lab.update_events import Update, follow_update

PROJECT: Final = Path(__file__).parents[1]
NAME: Final = "railyard"
CONFIG_DEADLINE_S: Final = 120

console = Console(highlight=False)


@record
class Site:
    """Which site file is played as which stack, and where its configuration lies."""

    stack: str
    file: Path
    config_file: Path | None
    """None: the committed `Pulumi.dev.yaml`."""

    @property
    def flags(self) -> list[str]:
        """What every `pulumi` command about this stack needs."""
        config = ["--config-file", str(self.config_file)] if self.config_file else []
        return ["--stack", self.stack, "--non-interactive", *config]


def choose_site(arguments: list[str]) -> Site:
    """The dev stack, or what `SITE=` names."""
    if not arguments:
        return Site(DEV_STACK, PROJECT / "examples" / DEV_EXAMPLE / SITE_FILE, None)
    stack, file = name_site(arguments[0])
    return Site(stack, file, PROJECT / ".lab" / stack / f"Pulumi.{stack}.yaml")


def load_spec(site: Site) -> ClusterSpec:
    """The checked site that the stack's configuration holds, or will hold.

    Raises:
        SpecError: The file is wrong; the text is the whole report.
    """
    if site.config_file is None:
        source = PROJECT / f"Pulumi.{site.stack}.yaml"
        config = yaml.safe_load(source.read_text())["config"]
        value: Json = config[f"{NAME}:cluster"]
        return check_config_value(value, source).spec_or_raise()
    document = overlay(load_document(site.file), site.stack, checksums())
    value = yaml.safe_load(yaml.safe_dump(document))
    return check_config_value(value, None).spec_or_raise()


def start_lab(spec: ClusterSpec, stack: str) -> None:
    """Play the site: start its devices unless they run, and say so."""
    cache = cache_root()
    lab = lab_file(spec, stack, (PROJECT, cache, Path(sys.executable)))
    get_programs(programs_of(lab))
    path = write_lab_file(lab)
    started = control.start(path)
    played = [item.name for item in (*lab.switches, *lab.hypervisors, *lab.hosts)]
    played += [lab.ufm.name] if lab.ufm else []
    played += ["a cloud"] if lab.cloud else []
    console.print(f"lab: {', '.join(played)} {'started' if started else 'running'}")
    routes = control.request(lab.control_socket, {"op": "status"})["routes"]
    if routes:
        console.print(f"lab: {routes}")


def play(site: Site, spec: ClusterSpec) -> Mapping[str, str]:
    """Start the lab, and give the secrets of the site by name."""
    secrets = secrets_of(site.stack)
    if not isinstance(spec.kubernetes, ExistingPlane):
        start_lab(spec, site.stack)
        return secrets
    from lab.existing import (  # noqa: PLC0415 - few sites have an owner, who plans a cluster
        by_hand,
        image_steps,
        install,
        with_owner,
    )
    from lab.existing_parts import bring_parts  # noqa: PLC0415 - the same

    owned = with_owner(spec, site.stack, k3s_source(checksums()))
    if owned is None:
        start_lab(spec, site.stack)
        return secrets
    start_lab(owned[0], site.stack)
    console.print("lab: its owner installs the cluster that exists already")
    image = image_steps(spec, owned[0], site.stack)
    kubeconfig = install(owned[1], secrets, image, by_hand(spec, owned[0]))
    bring_parts(spec, kubeconfig, PROJECT / ".lab" / site.stack)
    return secrets | {"kubeconfig": kubeconfig}


def _config(site: Site, environment: dict[str, str], *arguments: str, stdin: str = "") -> None:
    done = subprocess.run(
        ["pulumi", *arguments, *site.flags],
        cwd=PROJECT,
        env=environment,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=CONFIG_DEADLINE_S,
        check=False,
    )
    if done.returncode != 0:
        raise RailyardError(f"pulumi {' '.join(arguments)} failed:\n{done.stderr or done.stdout}")


def _ensure_stack(
    site: Site, spec: ClusterSpec, pulumi: Pulumi, secrets: Mapping[str, str]
) -> None:
    environment = dict(pulumi.environment)
    state = pulumi.backend / ".pulumi" / "stacks" / NAME / f"{site.stack}.json"
    if not state.exists():
        made = PROJECT / f"Pulumi.{site.stack}.yaml"
        subprocess.run(
            ["pulumi", "stack", "init", site.stack, "--non-interactive"],
            cwd=PROJECT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=CONFIG_DEADLINE_S,
            check=True,
        )
        if site.config_file is not None:
            site.config_file.parent.mkdir(parents=True, exist_ok=True)
            made.replace(site.config_file)
    if site.config_file is not None:
        _write_config(site, spec, environment, secrets)


def _write_config(
    site: Site, spec: ClusterSpec, environment: dict[str, str], secrets: Mapping[str, str]
) -> None:
    """The configuration of an example's stack: its overlaid site, the lab's secrets."""
    if site.config_file is None:
        return
    read = yaml.safe_load(site.config_file.read_text())
    content = cast("dict[str, dict[str, object]] | None", read) or {}
    document = overlay(load_document(site.file), site.stack, checksums())
    site.config_file.with_name(SITE_FILE).write_text(yaml.safe_dump(document, sort_keys=False))
    content["config"] = content.get("config", {}) | {SITE_KEY: SITE_FILE, f"{NAME}:lab": True}
    content["config"].pop(CONFIG_KEY, None)  # a run before there was the other key left it
    site.config_file.write_text(yaml.safe_dump(content, sort_keys=False))
    for key in secret_names(spec):
        if f"{NAME}:{key}" not in content["config"]:
            value = secrets.get(key)
            if value is None:
                raise UsageError(_unknown_secret(site, key))
            _config(site, environment, "config", "set", "--secret", f"{NAME}:{key}", stdin=value)


def _unknown_secret(site: Site, key: str) -> str:
    folder = PROJECT / ".lab" / site.stack
    return (
        f"the site names the secret {key}, and the lab has none of that name.\n"
        f"  fix    . {folder}/env.sh; pulumi config set --secret {NAME}:{key} "
        f"{' '.join(site.flags)} < FILE\n"
        "         then run `make up` again"
    )


def _update(site: Site, environment: dict[str, str]) -> Update:
    command = ["pulumi", "up", "--yes", "--skip-preview", "--continue-on-error", *site.flags]
    return follow_update(command, PROJECT, environment, PROJECT / ".lab" / site.stack)


def up(site: Site) -> int:
    """Set everything up and run one update.

    Returns:
        0 when the update and its acceptance are good, 1 otherwise.
    """
    begun = time.monotonic()
    engine = ensure_engine()
    binaries = ensure_binaries()
    spec = load_spec(site)
    if spec.kubespray is not None:
        ensure_ansible()
    secrets = play(site, spec)
    tools = {name: binaries[name] for name in ("kubectl", "helm")}
    tools["railyard"] = Path(sys.executable).with_name("railyard")
    helm = PROJECT / ".lab" / site.stack / "helm"
    variables = {
        f"HELM_{name}_HOME": str(helm / name.lower()) for name in ("CACHE", "CONFIG", "DATA")
    }
    if site.config_file is not None:
        variables[CONFIG_FILE] = str(site.config_file)
    settings = EnvSettings(
        PROJECT, site.stack, Path(sys.executable), engine, tools=tools, variables=variables
    )
    for notice in write_env(settings).notices:
        console.print(notice)
    environment = plan_environment(settings, os.environ)
    pulumi = Pulumi(PROJECT, NAME, site.stack, settings.backend, environment, site.config_file)
    for line in recover(pulumi):
        console.print(f"recovered: {line}")
    _ensure_stack(site, spec, pulumi, secrets)
    console.print(f"pulumi up, stack {site.stack}:")
    update = _update(site, environment)
    took_s = time.monotonic() - begun
    print_outcome(update, site.stack, settings.file, took_s, outline_of(spec))
    return 0 if update.succeeded else 1


def main(arguments: list[str]) -> int:
    """Run `make up`; a user's mistake ends with a report, never a traceback."""
    os.chdir(PROJECT)
    try:
        return up(choose_site(arguments))
    except RailyardError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("\ninterrupted; the next `make up` takes it from here", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
