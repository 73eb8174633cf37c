"""Entry point of the plugin process: `python -m standins.command ENGINE_ADDRESS`."""

import sys

from components.core.start import start_quickly
from standins.bare import without_init

if __name__ == "__main__":
    start_quickly()
    with without_init("pulumi", "pulumi.runtime"):  # the protocol is below, a program's SDK in it
        from standins.command.provider import CommandPlugin
        from standins.serve import serve

    sys.exit(serve(CommandPlugin))
