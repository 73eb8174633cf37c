"""Other users of the lab's clusters: pods that hold GPUs or cards, placed by the real scheduler.

    .venv/bin/python -m lab.cluster.tenants NAME NODE [RESOURCE=COUNT …] | kubectl apply -f -

The pod runs until it is deleted, as a training job would.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping

from lab.cluster.document import Doc

_NAME_AND_NODE = 2


def tenant_pod(
    name: str, node: str, resources: Mapping[str, int], namespace: str = "default"
) -> Doc:
    """A pod of somebody else.

    Args:
        name: Its name.
        node: The node that it wants; the scheduler places it there if there is room.
        resources: Extended resources that it holds, such as `nvidia.com/gpu`.
        namespace: Where it is.
    """
    limits: Doc = {key: str(count) for key, count in resources.items()}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": node},
            "containers": [
                {
                    "name": "train",
                    "image": "registry.example.com/train:1",
                    "command": ["sleep", "infinity"],
                    "resources": {"limits": limits},
                }
            ],
        },
    }


def main(words: list[str]) -> int:
    """Print the pod that the command line describes."""
    if len(words) < _NAME_AND_NODE:
        print("usage: python -m lab.cluster.tenants NAME NODE [RESOURCE=COUNT …]", file=sys.stderr)
        return 2
    name, node, *held = words
    pairs = [each.partition("=") for each in held] or [("nvidia.com/gpu", "=", "8")]
    print(json.dumps(tenant_pod(name, node, {key: int(count) for key, _, count in pairs})))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
