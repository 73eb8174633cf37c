"""The examples as specs, and changed copies of them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import yaml

from components.model.cluster import ClusterSpec
from components.reading.port_ranges import spread_document

EXAMPLES = Path(__file__).parents[2] / "examples"


@cache
def load_example(name: str) -> ClusterSpec:
    text = (EXAMPLES / name / "site.yaml").read_text()
    return ClusterSpec.model_validate(spread_document(yaml.load(text, Loader=yaml.CSafeLoader)))


def changed_spec(spec: ClusterSpec, **parts: object) -> ClusterSpec:
    """A copy with other parts, as if the file had said so."""
    return spec.model_copy(update=parts)
