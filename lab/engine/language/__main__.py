"""`python -m lab.engine.language ENGINE_ADDRESS`: serves the language host."""

from __future__ import annotations

import sys

from components.core.start import start_quickly
from standins.bare import without_init

if __name__ == "__main__":
    start_quickly()
    with without_init("pulumi", "pulumi.runtime"):  # the protocol is below, a program's SDK in it
        from lab.engine.language.host import main

    sys.exit(main())
