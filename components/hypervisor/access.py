"""Why an ESXi host refuses the login, and what to do there."""

from __future__ import annotations

from components.core.errors import DeviceError, HostKeyError, UnreachableError


def explain_refusal(error: DeviceError) -> str:
    """The words of a failed connection, and what usually is behind it on ESXi.

    SSH is off by default and may be closed by a timeout; lockdown mode refuses a key that is
    right (sources.md#esxi).
    """
    if isinstance(error, HostKeyError):
        return str(error)
    if isinstance(error, UnreachableError) and isinstance(error.__cause__, ConnectionRefusedError):
        return (
            f"{error}\n  fix        SSH is off by default on ESXi, and UserVars.ESXiShellTimeOut"
            " closes it: `govc host.service start TSM-SSH`, or Host > Services in the host client"
        )
    if "refused our SSH key" in str(error):
        return (
            f"{error}\n  fix        look for the public key in /etc/ssh/keys-root/authorized_keys;"
            " if it is there, the host is in lockdown mode: end it in vCenter (Security Profile)"
            " or at the console, or make root an exception user"
        )
    return str(error)
