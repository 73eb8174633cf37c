"""`python -m standins.kubernetes ENGINE_ADDRESS`: serves the stand-in."""

from __future__ import annotations

import sys

from standins.kubernetes.provider import KubernetesPlugin
from standins.serve import serve

if __name__ == "__main__":
    sys.exit(serve(KubernetesPlugin))
