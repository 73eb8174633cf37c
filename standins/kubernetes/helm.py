"""Runs the real helm binary against the configured cluster."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import yaml

from standins.kubernetes.kubeconfig import Access
from standins.kubernetes.memory_file import memory_file, path_of
from standins.kubernetes.values import Json, JsonMap, as_map, as_text, parse_json

GRACE_S = 60.0  # beyond helm's own --timeout: hooks and rollbacks have one of their own
CHART_TIMEOUT_S = 120.0


class HelmError(Exception):
    """Helm ended with an error; the text is its own."""


class ReleaseNotFoundError(HelmError):
    """There is no release of that name."""


@dataclass(frozen=True, slots=True)
class ChartRef:
    """Where a chart is: a path, or a name in a repository."""

    chart: str
    version: str = ""
    repository: JsonMap = field(default_factory=dict[str, Json])
    devel: bool = False
    verify: bool = False
    keyring: str = ""

    def arguments(self) -> list[str]:
        """Returns the arguments that name the chart."""
        result = [self.chart]
        options = {
            "--version": self.version,
            "--repo": as_text(self.repository.get("repo")),
            "--username": as_text(self.repository.get("username")),
            "--password": as_text(self.repository.get("password")),
            "--ca-file": as_text(self.repository.get("caFile")),
            "--cert-file": as_text(self.repository.get("certFile")),
            "--key-file": as_text(self.repository.get("keyFile")),
            "--keyring": self.keyring if self.verify else "",
        }
        for flag, value in options.items():
            if value:
                result += [flag, value]
        result += ["--devel"] if self.devel else []
        return result + (["--verify"] if self.verify else [])


@dataclass(frozen=True, slots=True)
class HelmRelease:
    """A release as helm knows it."""

    name: str
    namespace: str
    revision: int
    status: str
    chart: str
    chart_version: str
    app_version: str
    config: JsonMap
    manifest: str


@dataclass(frozen=True, slots=True)
class Helm:
    """Helm for one cluster."""

    access: Access | None
    home: Path

    def chart_metadata(self, ref: ChartRef) -> JsonMap:
        """Loads a chart's `Chart.yaml`.

        Raises:
            HelmError: The chart cannot be found or read.
        """
        text = self._run(["show", "chart", *ref.arguments()], CHART_TIMEOUT_S)
        return as_map(cast("Json", yaml.safe_load(text)))

    def chart_crds(self, ref: ChartRef) -> list[JsonMap]:
        """Loads the CustomResourceDefinitions that a chart ships."""
        text = self._run(["show", "crds", *ref.arguments()], CHART_TIMEOUT_S)
        return load_documents(text)

    def apply(self, arguments: list[str], values: JsonMap, timeout_s: float) -> None:
        """Installs or upgrades; the values travel on standard input.

        Raises:
            HelmError: Helm failed.
        """
        text = json.dumps(values)
        self._run([*arguments, "--values", "-"], timeout_s + GRACE_S, stdin=text)

    def get(self, name: str, namespace: str) -> HelmRelease:
        """Reads a release.

        Raises:
            ReleaseNotFoundError: There is none.
            HelmError: Helm failed otherwise.
        """
        where = [name, "--namespace", namespace]
        metadata = self._json(["get", "metadata", *where])
        return HelmRelease(
            name=name,
            namespace=as_text(metadata.get("namespace")) or namespace,
            revision=int(cast("float", metadata.get("revision") or 0)),
            status=as_text(metadata.get("status")),
            chart=as_text(metadata.get("chart")),
            chart_version=as_text(metadata.get("version")),
            app_version=as_text(metadata.get("appVersion")),
            config=self._json(["get", "values", *where]),
            manifest=self._run(["get", "manifest", *where], CHART_TIMEOUT_S),
        )

    def uninstall(self, name: str, namespace: str, *, wait: bool, timeout_s: float) -> str:
        """Removes a release and returns what helm says about kept objects.

        Raises:
            HelmError: Helm failed.
        """
        arguments = ["uninstall", name, "--namespace", namespace, "--timeout", f"{timeout_s:.0f}s"]
        arguments += ["--wait"] if wait else []
        return self._run(arguments, timeout_s + GRACE_S)

    def _json(self, arguments: list[str]) -> JsonMap:
        return as_map(parse_json(self._run([*arguments, "--output", "json"], CHART_TIMEOUT_S)))

    def _run(self, arguments: list[str], limit_s: float, stdin: str = "") -> str:
        program = shutil.which("helm")
        if program is None:
            raise HelmError("helm is not on PATH; the lab's setup builds it")
        document = self.access.document if self.access else {}
        with memory_file(json.dumps(document)) as config:
            try:
                done = subprocess.run(
                    [program, *arguments],
                    input=stdin,
                    capture_output=True,
                    text=True,
                    check=False,
                    timeout=limit_s,
                    env=self._environment(path_of(config)),
                    pass_fds=(config,),
                )
            except subprocess.TimeoutExpired as error:
                raise HelmError(f"helm {arguments[0]} did not end within {limit_s:.0f} s") from (
                    error
                )
        if done.returncode == 0:
            return done.stdout
        text = done.stderr.strip().removeprefix("Error: ")
        failure = ReleaseNotFoundError if text.endswith("release: not found") else HelmError
        raise failure(text)

    def _environment(self, kubeconfig: str) -> dict[str, str]:
        own = {
            f"HELM_{key}_HOME": os.environ.get(f"HELM_{key}_HOME", str(self.home / key.lower()))
            for key in ("CACHE", "CONFIG", "DATA")
        }
        return {**os.environ, **own, "KUBECONFIG": kubeconfig}


def helm_home() -> Path:
    """Returns a folder of our own for helm's caches, where the environment names none."""
    return Path(tempfile.gettempdir()) / f"railyard-helm-{os.getuid()}"


def load_documents(text: str) -> list[JsonMap]:
    """Parses a stream of YAML documents into the objects in it."""
    loaded = cast("list[Json]", list(yaml.safe_load_all(text)))
    return [as_map(item) for item in loaded if isinstance(item, dict)]


def resource_names(manifest: str) -> dict[str, list[str]]:
    """Groups the names of a release's objects by `Kind.group/apiVersion`, as Pulumi shows them."""
    found: dict[str, set[str]] = {}
    for obj in load_documents(manifest):
        api_version, kind = as_text(obj.get("apiVersion")), as_text(obj.get("kind"))
        group = api_version.rpartition("/")[0]
        metadata = as_map(obj.get("metadata"))
        name, namespace = as_text(metadata.get("name")), as_text(metadata.get("namespace"))
        key = f"{kind}.{group}/{api_version}" if group else f"{kind}/{api_version}"
        found.setdefault(key, set()).add(f"{namespace}/{name}" if namespace else name)
    return {key: sorted(names) for key, names in sorted(found.items())}
