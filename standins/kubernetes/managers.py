"""Field managers: hand-over from client-side creates to server-side apply, and ignored fields."""

from __future__ import annotations

from collections.abc import Sequence

from standins.kubernetes.diff import parse_property_path
from standins.kubernetes.values import Json, JsonMap, as_list, as_map, copy_map, dig

CREATE_MANAGER = "pulumi-kubernetes"

# Managers whose fields pass to the applying one, else a field that is dropped from the program
# would stay on the server: its creator still owns it.
_ABSORBED = frozenset(
    {
        ("kubectl", "Apply"),
        ("kubectl", "Update"),
        ("before-first-apply", "Update"),
        ("pulumi-kubernetes", "Update"),
        ("pulumi-kubernetes.exe", "Update"),
        ("pulumi-resource-kubernetes", "Update"),
    }
)


def plan_takeover(live: JsonMap, manager: str) -> list[JsonMap] | None:
    """Returns the JSON patch that hands creators' fields to `manager`; None if there is none."""
    entries = [as_map(entry) for entry in as_list(dig(live, "metadata", "managedFields"))]
    taken = [entry for entry in entries if _is_absorbed(entry)]
    if not taken:
        return None
    own = [entry for entry in entries if _is_apply_of(entry, manager)]
    rest = [entry for entry in entries if entry not in taken and entry not in own]
    merged: JsonMap = {}
    for entry in [*own, *taken]:
        merged = _merge(merged, as_map(entry.get("fieldsV1")))
    combined: JsonMap = {
        **taken[-1],
        "manager": manager,
        "operation": "Apply",
        "fieldsV1": merged,
    }
    value: list[Json] = [*rest, combined]
    version = dig(live, "metadata", "resourceVersion")
    return [
        {"op": "replace", "path": "/metadata/managedFields", "value": value},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
    ]


def has_create_manager(live: JsonMap) -> bool:
    """Says whether the object still has fields of a client-side manager of this plugin."""
    entries = as_list(dig(live, "metadata", "managedFields"))
    return any(_is_absorbed(as_map(entry)) for entry in entries)


def keep_ignored(inputs: JsonMap, live: JsonMap, ignored: Sequence[str], manager: str) -> JsonMap:
    """Returns the inputs with every ignored field as it is on the server.

    A field of another manager is left out (naming it would conflict with its owner); one of ours
    keeps its live value (leaving it out would remove it).
    """
    result = copy_map(inputs)
    for text in ignored:
        path = [str(step) for step in parse_property_path(text)]
        found = dig(live, *path)
        if found is None:
            continue
        ours = any(
            _owns(as_map(as_map(entry).get("fieldsV1")), path)
            for entry in as_list(dig(live, "metadata", "managedFields"))
            if dig(entry, "manager") in (manager, CREATE_MANAGER)
        )
        _put(result, path, found if ours else None)
    return result


def _is_absorbed(entry: JsonMap) -> bool:
    return (entry.get("manager"), entry.get("operation")) in _ABSORBED and not entry.get(
        "subresource"
    )


def _is_apply_of(entry: JsonMap, manager: str) -> bool:
    return entry.get("manager") == manager and entry.get("operation") == "Apply"


def _merge(left: JsonMap, right: JsonMap) -> JsonMap:
    result = dict(left)
    for key, value in right.items():
        mine = result.get(key)
        both_maps = isinstance(mine, dict) and isinstance(value, dict)
        result[key] = _merge(as_map(mine), as_map(value)) if both_maps else value
    return result


def _owns(fields: JsonMap, path: Sequence[str]) -> bool:
    node: Json = fields
    for step in path:
        if not isinstance(node, dict) or f"f:{step}" not in node:
            return False
        node = node[f"f:{step}"]
    return True


def _put(obj: JsonMap, path: Sequence[str], value: Json) -> None:
    node = obj
    for step in path[:-1]:
        child = node.get(step)
        if not isinstance(child, dict):
            if value is None:
                return
            child = {}
            node[step] = child
        node = child
    if value is None:
        node.pop(path[-1], None)
    else:
        node[path[-1]] = value
