"""The tables of acceptance: a YAML file beside the module that reads it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml


@cache
def read_table(module: str, name: str) -> Any:  # noqa: ANN401 - as the file has it
    """Read the table `name` in the folder of a module, given by its `__file__`."""
    return yaml.load(Path(module).with_name(f"{name}.yaml").read_bytes(), yaml.CSafeLoader)
