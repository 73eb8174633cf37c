"""A fixed seed of the campaign's third tier, on the lab that stands."""

from __future__ import annotations

import pytest

from campaign.history import History
from campaign.whole.play import play_on
from tests.site.playground import Playground

pytestmark = pytest.mark.site


def test_one_edit_and_one_fault_come_to_rest(standing: Playground) -> None:
    history = History(3, 1)
    play_on(standing, history)
    assert [each.text for each in history.findings] == [], "\n".join(history.lines)
