"""netmiko's session, without its two hundred systems: we have drivers of our own.

`import netmiko` imports a class for each, a third of the start of a switch's step.
"""

from __future__ import annotations

from logging import getLogger

from components.core.start import without_init

with without_init("netmiko", log=getLogger("netmiko")):
    from netmiko.base_connection import BaseConnection
    from netmiko.exceptions import NetmikoAuthenticationException, NetmikoBaseException

__all__ = ["BaseConnection", "NetmikoAuthenticationException", "NetmikoBaseException"]
