"""`python -m lab.plugins.kubernetes ENGINE_ADDRESS`: serves the stand-in."""

from __future__ import annotations

import sys

from lab.plugins.kubernetes.provider import KubernetesPlugin
from lab.plugins.serve import serve

if __name__ == "__main__":
    sys.exit(serve(KubernetesPlugin))
