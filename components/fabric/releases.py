"""What the release of a switch system says about it, by system: pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from components.fabric.drivers import cumulus_profile, sonic_facts
from components.fabric.models.switch_model import Release, SwitchModel, parse_release


def _show(release: Release) -> str:
    return ".".join(map(str, release))


@dataclass(frozen=True, slots=True)
class ReleaseRule:
    """How releases of one system are read, and which is the oldest that we can set."""

    least: Callable[[SwitchModel, bool], Release]
    """By model, and by whether the file is lossless."""
    one_shot: Callable[[bool], bool]
    """Whether RoCE is one setting of the vendor's, with a priority of its own, by lossless."""
    parse: Callable[[str], Release] = parse_release
    show: Callable[[Release], str] = _show


def _onyx(model: SwitchModel, lossless: bool) -> Release:  # noqa: FBT001 - see `ReleaseRule.least`
    return model.min_release_one_shot if lossless else model.min_release


RELEASES: Final[dict[str, ReleaseRule]] = {
    "onyx": ReleaseRule(_onyx, lambda lossless: lossless),
    "cumulus": ReleaseRule(
        lambda _model, _lossless: (*cumulus_profile.MIN_RELEASE, 0), lambda _lossless: True
    ),
    "sonic": ReleaseRule(
        lambda _model, _lossless: (sonic_facts.MIN_RELEASE, 0, 0),
        lambda _lossless: False,
        lambda text: (sonic_facts.parse_release(text), 0, 0),
        lambda release: str(release[0]),
    ),
}
"""By switch system."""
