"""Which provider plugins the installed Python packages ask for."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final, TypedDict, cast

PLUGIN_FILE: Final = "pulumi-plugin.json"


class _PluginFile(TypedDict, total=False):
    resource: bool
    name: str
    version: str


@dataclass(frozen=True, slots=True, order=True)
class RequiredPackage:
    """A provider plugin by name, and the version that its Python package was made for."""

    name: str
    version: str


def required_packages() -> tuple[RequiredPackage, ...]:
    """Return what every installed package's `pulumi-plugin.json` names, sorted."""
    found: set[RequiredPackage] = set()
    for distribution in metadata.distributions():
        for file in distribution.files or ():
            if file.name == PLUGIN_FILE:
                package = parse_plugin_file(Path(str(distribution.locate_file(file))).read_text())
                found |= {package} if package is not None else set()
    return tuple(sorted(found))


def parse_plugin_file(text: str) -> RequiredPackage | None:
    """Return the plugin that one `pulumi-plugin.json` names; None for a plain component."""
    plugin = cast("_PluginFile", json.loads(text))
    if not plugin.get("resource") or "name" not in plugin:
        return None
    return RequiredPackage(plugin["name"], plugin.get("version", ""))
