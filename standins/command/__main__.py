"""Entry point of the plugin process: `python -m standins.command ENGINE_ADDRESS`."""

import sys

from standins.command.provider import CommandPlugin
from standins.serve import serve

if __name__ == "__main__":
    sys.exit(serve(CommandPlugin))
