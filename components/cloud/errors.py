"""What a cloud's API can answer instead of what was asked for, by what may follow from it."""

from __future__ import annotations

from components.core.errors import DeviceError


class CloudError(DeviceError):
    """The API refused or failed. It is never read as "there is nothing": nothing was deleted."""

    exit_code = 4

    def __init__(self, text: str, status: int = 0) -> None:
        """Keep the status.

        Args:
            text: The whole report.
            status: The HTTP status; 0 where there was no answer.
        """
        super().__init__(text)
        self.status = status


class AmbiguousError(CloudError):
    """A change was asked for and the answer was lost: it may or may not have happened."""


class NotFoundError(CloudError):
    """The API does not know the id; only with a list that lacks it, the thing is gone."""


class OutOfStockError(DeviceError):
    """The cloud has no machine of that type at present, or our quota is used up."""
