"""A folder that `railyard init` made, played by a lab with a web and a registry of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Final, cast

import yaml

from components.checks.site import check_config_value
from components.core.record import record, replace
from components.update.secrets import secret_names
from lab import control
from lab.cache import cache_root
from lab.cluster.build import ensure_binaries
from lab.engine.env import EnvSettings, plan_environment, write_env
from lab.engine.install import ensure_engine
from lab.hosts.lab_file import SourcesLab
from lab.site import lab_file, load_document, secrets_of, write_lab_file
from lab.sources.server import PUBLIC, authority_of
from lab.sources.site import with_sources
from tests.site.conftest import stop_and_check
from tests.site.leftovers import MARK
from tests.site.playground import PROJECT, Done, lab_folder, run, take_snapshot

RAILYARD: Final = PROJECT / ".venv/bin/railyard"


@record
class Begun:
    """One project of a user and the lab that plays its devices and its sources."""

    folder: Path
    example: str
    stack: str
    environment: Mapping[str, str]

    def railyard(self, *arguments: str) -> Done:
        """One `railyard` command, in the folder."""
        return self._run(str(RAILYARD), *arguments)

    def pulumi(self, *arguments: str) -> Done:
        """One `pulumi` command about the stack, in the folder."""
        flags = ("--stack", self.stack, "--non-interactive")
        return self._run("pulumi", *arguments, *flags)

    def up(self) -> Done:
        """The update, without the preview that people read."""
        return self.pulumi("up", "--yes", "--skip-preview", "--continue-on-error")

    def kubectl(self, *arguments: str) -> Done:
        """One `kubectl` command."""
        return self._run("kubectl", *arguments)

    def spoil(self, what: str, path: str) -> None:
        """Alter a file that the web serves, take it away, or mend it."""
        lab = lab_folder(self.stack) / "control.sock"
        control.request(lab, {"op": "fault", "device": "web", "args": [what, path]})

    def snapshot(self) -> str:
        """The whole state of all devices, but how often a cloud's API was asked."""
        return re.sub(r'"requests": \d+', '"requests": 0', take_snapshot(self.stack))

    def _run(self, *command: str) -> Done:
        return run(command, self.environment, self.folder)


@contextmanager
def begin(
    mark: str, folder: Path, example: str, stack: str, sources: SourcesLab
) -> Generator[Begun]:
    """Run `railyard init`, write a lab's values over the example's, and start that lab."""
    said = subprocess.run(
        [RAILYARD, "init", folder, "--example", example, "--stack", stack],
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"wrote Pulumi.yaml, Pulumi.{stack}.yaml" in said.stdout
    root = lab_folder(stack)
    authority = authority_of(root).files.cert
    document = with_sources(
        load_document(folder / "site.yaml"), stack, sources, authority.read_text()
    )
    plane = cast("dict[str, object]", document.get("kubernetes", {}))
    if plane and plane.get("plane", "k3s") == "k3s":
        plane["reset"] = "allow"  # it is destroyed at the end
    (folder / "site.yaml").write_text(yaml.safe_dump(document, sort_keys=False))
    (folder / ".venv").symlink_to(PROJECT / ".venv")  # steps call Railyard there
    spec = check_config_value(yaml.safe_load(yaml.safe_dump(document)), None).spec_or_raise()
    lab = lab_file(spec, stack, (PROJECT, cache_root(), Path(sys.executable)))
    control.start(write_lab_file(replace(lab, sources=sources)))
    try:
        begun = Begun(folder, example, stack, _environment(mark, folder, stack, sources, authority))
        begun.pulumi("stack", "init").must()
        found = secrets_of(stack)
        secrets = [("--secret", f"railyard:{name}={found[name]}") for name in secret_names(spec)]
        values = ("--plaintext", "railyard:lab=true", *chain(*secrets))
        begun.pulumi("config", "set-all", *values).must()
        yield begun
    finally:
        stop_and_check(mark, stack)


def _environment(
    mark: str, folder: Path, stack: str, sources: SourcesLab, authority: Path
) -> Mapping[str, str]:
    """A shell with the lab's engine, on a machine that trusts what the hosts trust."""
    binaries = ensure_binaries()
    tools = {name: binaries[name] for name in ("kubectl", "helm")}
    homes = {f"HELM_{each}_HOME": str(folder / "helm") for each in ("CACHE", "CONFIG", "DATA")}
    if sources.trusted:
        trust = folder / "trusted.crt"
        trust.write_bytes(PUBLIC.read_bytes() + authority.read_bytes())
        homes["SSL_CERT_FILE"] = str(trust)
    settings = EnvSettings(
        folder, stack, Path(sys.executable), ensure_engine(), tools=tools, variables=homes
    )
    write_env(settings)
    base = {"PATH": "/usr/bin:/bin", "HOME": str(folder), MARK: mark}
    return plan_environment(settings, base)
