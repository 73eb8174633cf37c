"""Keys of `rdma` that say what another key says already: read from older files, and left out.

NIC and switch keep their default map, in which DSCP 8n to 8n+7 is priority n and class n. So
`priority`, `traffic_class` and `cnp_priority` follow from `dscp` and `cnp_dscp`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from components.core.problem import Json, Place, Problem
from components.model.fabric import DSCP_PER_PRIORITY, Rdma
from components.reading.wording import show_value
from components.reading.yaml_text import YamlText

RULE: Final = "derived-key"
DERIVED: Final[Mapping[str, tuple[str, ...]]] = {
    "dscp": ("priority", "traffic_class"),
    "cnp_dscp": ("cnp_priority",),
}
"""Key of `rdma` to the keys that follow from it."""

_PRIORITIES: Final = 8
"""IEEE 802.1Q."""
_DSCPS: Final = _PRIORITIES * DSCP_PER_PRIORITY


def drop_derived(text: YamlText) -> YamlText:
    """Leave out the keys that follow from others.

    Returns:
        The same text where there is none. A key that contradicts what it follows from has its
        problem, and is left out as well.
    """
    rdma = text.value.get("rdma") if isinstance(text.value, dict) else None
    derived = {key for keys in DERIVED.values() for key in keys}
    if not isinstance(text.value, dict) or not isinstance(rdma, dict) or not derived & rdma.keys():
        return text
    kept: dict[str, Json] = {key: value for key, value in rdma.items() if key not in derived}
    problems = (*text.problems, *_contradictions(rdma))
    return replace(text, value={**text.value, "rdma": kept}, problems=problems)


def _contradictions(rdma: Mapping[str, Json]) -> Iterator[Problem]:
    for key, derived in DERIVED.items():
        dscp = rdma.get(key, Rdma.model_fields[key].default)
        if isinstance(dscp, bool) or not isinstance(dscp, int) or not 0 <= dscp < _DSCPS:
            continue  # the model refuses it, and nothing follows from it
        means = dscp // DSCP_PER_PRIORITY
        wrong = {each: rdma[each] for each in derived if each in rdma and rdma[each] != means}
        if not wrong:
            continue
        names = " and ".join(f"`{each}`" for each in wrong)
        shown = " and ".join(f"`{each}: {show_value(value)}`" for each, value in wrong.items())
        verb = "contradict" if len(wrong) > 1 else "contradicts"
        yield Problem(
            RULE,
            f"{shown} {verb} `{key}: {dscp}`, which is priority {means} and traffic class "
            f"{means} on NIC and switch.",
            (
                *(Place(("rdma", each), show_value(value)) for each, value in wrong.items()),
                Place(("rdma", key), str(dscp)),
            ),
            f"remove {names}: {'they follow' if len(wrong) > 1 else 'it follows'} from "
            f"{key}.{_other_dscp(key, next(iter(wrong.values())))}",
        )


def _other_dscp(key: str, priority: Json) -> str:
    """The values of the DSCP that give what the file asks for, if there is such a priority."""
    if (
        isinstance(priority, bool)
        or not isinstance(priority, int)
        or not 0 <= priority < _PRIORITIES
    ):
        return ""
    first = priority * DSCP_PER_PRIORITY
    last = first + DSCP_PER_PRIORITY - 1
    return f" For priority {priority}, set {key} to one of {first}-{last}."
