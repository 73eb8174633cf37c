"""A recorded graph as a page: what is made, in which part, after what, and what of it is secret.

Texts that a resource holds are not in it: the plan shows them, and their own tests hold them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping

from components.core.problem import Json
from components.testing import SECRET_KEY, Graph, Recorded

_CALL = 100
"""Characters of a command up to which it is shown; longer ones are scripts."""
_DIGEST = re.compile(r"\b[0-9a-f]{12,64}\b")


def render_graph(graph: Graph) -> str:
    """Give one entry a resource, below its parent, in the order of names."""
    below: defaultdict[str, list[Recorded]] = defaultdict(list)
    names = {item.name for item in graph.resources}
    for item in graph.resources:
        below[item.parent if item.parent in names else ""].append(item)
    parents = [item.name for item in graph.resources if item.name in below]
    assert len(parents) == len(set(parents)), f"two parents of one name: {parents}"
    return "".join(f"{line}\n" for line in _tree("", below, ""))


def _tree(parent: str, below: Mapping[str, list[Recorded]], indent: str) -> Iterator[str]:
    for item in sorted(below.get(parent, ()), key=lambda item: (item.name, item.type)):
        yield f"{indent}{item.name}  {item.type}{_options(item)}"
        for line in _edges(item):
            yield f"{indent}    {line}"
        yield from _tree(item.name, below, f"{indent}  ")


def _options(item: Recorded) -> str:
    words = [
        key if value is True else f"{key} {_flat(value)}"
        for key, value in sorted(item.options.items())
    ]
    return f"  [{'; '.join(words)}]" if words else ""


def _flat(value: Json) -> str:
    return ", ".join(str(each) for each in value) if isinstance(value, list) else str(value)


def _edges(item: Recorded) -> Iterator[str]:
    if item.dependencies:
        yield f"after {', '.join(item.dependencies)}"
    for key in ("create", "update", "delete"):
        call = item.inputs.get(key)
        if isinstance(call, str) and "\n" not in call and len(call) <= _CALL:
            yield f"{key} {_DIGEST.sub('…', call)}"
    secrets = [path for key, value in sorted(item.inputs.items()) for path in _sealed(value, key)]
    secrets += [f"output {key}" for key in item.secret_outputs]
    if secrets:
        yield f"secret {', '.join(secrets)}"


def _sealed(value: Json, path: str) -> Iterator[str]:
    """Where the secrets of an input are."""
    if isinstance(value, dict) and SECRET_KEY in value:
        yield path
    elif isinstance(value, dict):
        for key, inner in sorted(value.items()):
            yield from _sealed(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for inner in value:
            yield from _sealed(inner, f"{path}[]")
