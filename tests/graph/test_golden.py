"""The recorded resource graph of the example, as a golden file."""

from __future__ import annotations

import hashlib
import json
import os

from components.core.problem import Json
from tests.golden.files import FOLDER, check_golden
from tests.graph.harness import SECRET_KEY, Graph, Recorded, unwrap_all

GOLDEN = FOLDER / "dgx-roce" / "graph.json"
SMALL = 200
"""Characters of JSON up to which an input stands in the golden file itself."""


def test_the_resource_graph_of_the_example_is_as_recorded(dev_graph: Graph) -> None:
    rows = [row_of(item) for item in dev_graph.resources]
    if GOLDEN.exists() and os.environ.get("RAILYARD_GOLDENS") != "1":
        recorded = {str(row["name"]): row for row in json.loads(GOLDEN.read_text())}
        now = {str(row["name"]): row for row in rows}
        differing = [name for name in now | recorded if now.get(name) != recorded.get(name)]
        assert not differing, "other than recorded; `make goldens`, then read the diff"
    check_golden("dgx-roce/graph.json", json.dumps(rows, indent=1, sort_keys=True) + "\n")


def test_stack_outputs_are_the_verdict_and_the_name(dev_graph: Graph) -> None:
    assert dev_graph.outputs == {"verdict": "acceptance passed", "cluster": "dgx-roce"}


def row_of(item: Recorded) -> dict[str, Json]:
    row: dict[str, Json] = {
        "type": item.type,
        "name": item.name,
        "parent": item.parent,
        "dependencies": list(item.dependencies),
        "inputs": {key: _reduced(value) for key, value in sorted(item.inputs.items())},
    }
    if item.options:
        row["options"] = dict(item.options)
    if item.secret_outputs:
        row["secret_outputs"] = list(item.secret_outputs)
    return row


def _reduced(value: Json) -> Json:
    """Small values whole, large ones as a fingerprint; secrets are marked and always reduced."""
    sealed = _sealed(value)
    return sealed if len(json.dumps(sealed)) <= SMALL else _fingerprint(sealed)


def _sealed(value: Json) -> Json:
    if isinstance(value, dict) and SECRET_KEY in value:
        return f"secret of {_fingerprint(unwrap_all(value))}"
    if isinstance(value, dict):
        return {key: _sealed(item) for key, item in value.items()}
    return [_sealed(item) for item in value] if isinstance(value, list) else value


def _fingerprint(value: Json) -> str:
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return f"{len(text)} characters, sha256 {hashlib.sha256(text.encode()).hexdigest()[:12]}"
