"""The errors that Railyard raises, by the person who can fix them."""

from __future__ import annotations


class RailyardError(Exception):
    """A failure with the whole report as its text: the fault, its place and the fix."""

    exit_code: int = 1


class SpecError(RailyardError):
    """The user's file is wrong. Nothing was touched."""


class UsageError(RailyardError):
    """The command line is wrong, or a file it names does not exist."""

    exit_code = 2


class DeviceError(RailyardError):
    """A device refused, failed, or gave an unreadable answer.

    The text names the device, its address, the command, the device's answer, and which changes were
    made and which were not.
    """

    kept: bool = False
    """The device is in its earlier state: nothing was changed on it, or all changes were undone."""


class UnreachableError(DeviceError):
    """A session with a device could not be opened within its deadline."""

    exit_code = 4


class HostKeyError(DeviceError):
    """A device presented another host key than the pinned one: it may be another device."""

    exit_code = 4


class Bug(RailyardError):  # noqa: N818 - a bug is no error of the user, and reads so in a report
    """A mistake in Railyard; the report asks for an issue."""
