"""`python -m standins.kubernetes ENGINE_ADDRESS`: serves the stand-in."""

from __future__ import annotations

import sys

from components.core.start import start_quickly
from standins.bare import without_init

if __name__ == "__main__":
    start_quickly()
    with without_init("pulumi", "pulumi.runtime"):  # the protocol is below, a program's SDK in it
        from standins.kubernetes.provider import KubernetesPlugin
        from standins.serve import serve

    sys.exit(serve(KubernetesPlugin))
