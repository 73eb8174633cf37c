"""Which provider plugins the installed Python packages ask for."""

from __future__ import annotations

import json
import sysconfig
from dataclasses import dataclass
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
    """Return what every installed package's `pulumi-plugin.json` names, sorted.

    The file lies in the package's folder, where the engine's own host looks for it too; the lists
    of all files of all packages, which name it as well, take 0.17 s to read.
    """
    folders = {Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")}
    files = (file for folder in folders for file in folder.glob(f"*/{PLUGIN_FILE}"))
    found = {parse_plugin_file(file.read_text()) for file in files}
    return tuple(sorted(package for package in found if package is not None))


def parse_plugin_file(text: str) -> RequiredPackage | None:
    """Return the plugin that one `pulumi-plugin.json` names; None for a plain component."""
    plugin = cast("_PluginFile", json.loads(text))
    if not plugin.get("resource") or "name" not in plugin:
        return None
    return RequiredPackage(plugin["name"], plugin.get("version", ""))
