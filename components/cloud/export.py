"""What was made in a cloud, written as a site that brings its own instances.

Another stack, or the same one under other hands, can then install on them without any key of the
cloud: `instances: {kind: bring_your_own}` and the hosts, with addresses and pinned host keys.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import cast

from components.core.errors import UsageError
from components.core.plain_text import Facts, fill
from components.core.problem import Json
from components.model.cluster import ClusterSpec
from components.model.worker_kinds import crusoe_of, with_instances


def export_bring_your_own(spec: ClusterSpec, facts: Facts) -> dict[str, Json]:
    """The site with its instances as hosts, as plain data for YAML.

    Raises:
        UsageError: The site makes no instances, or one of them is not there yet.
    """
    provision = crusoe_of(spec)
    if provision is None:
        raise UsageError("the site makes no cloud instances, so there is nothing to export.")
    whole = with_instances(spec)
    missing = [host.name for host in whole.hosts if not _is_known(facts.get(host.name, {}))]
    if missing:
        raise UsageError(
            f"nothing is known yet of {', '.join(missing)}.\n"
            "  fix    run `pulumi up`: it makes them and reads their host keys"
        )
    text = fill(whole.model_dump_json(exclude_defaults=True), facts)
    document = cast("dict[str, Json]", json.loads(text))
    environment = cast("dict[str, Json]", document["environment"])
    environment["instances"] = {"kind": "bring_your_own"}
    return document


def _is_known(facts: Mapping[str, str]) -> bool:
    return all(facts.get(key) for key in ("public_ip", "private_ip", "host_key"))
