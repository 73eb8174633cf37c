"""Entry point of the plugin process: `python -m lab.plugins.command ENGINE_ADDRESS`."""

import sys

from lab.plugins.command.provider import CommandPlugin
from lab.plugins.serve import serve

if __name__ == "__main__":
    sys.exit(serve(CommandPlugin))
