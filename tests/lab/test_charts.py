"""The lab's charts take the values of the real ones, whose releases are packed, and no others."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.schemas.judge import packed_releases, packed_values, unknown_keys

CHARTS: Final = Path(__file__).parents[2] / "lab/cluster/charts"
NAMES: Final = sorted(path.name for path in CHARTS.iterdir())
HELMS_OWN: Final = "global"
OF_OTHERS: Final = {
    # Keys of the chart of node-feature-discovery 0.19.0, which the operators bring.
    "node-feature-discovery.image",
    "node-feature-discovery.imagePullSecrets",
    # In `templates/_helpers.tpl` of the network operator's chart, and not in its values.
    "operator.imagePullSecrets",
}


def read(chart: str, file: str) -> Any:  # noqa: ANN401 - any YAML
    return yaml.safe_load((CHARTS / chart / file).read_text("utf-8"))


def real_values(chart: str) -> Mapping[str, Any]:
    """Of the newest release, which a site gets by default."""
    return packed_values(chart, packed_releases(chart)[-1])


@pytest.mark.parametrize("chart", NAMES)
def test_its_values_are_keys_of_the_real_chart(chart: str) -> None:
    assert set(unknown_keys(real_values(chart), read(chart, "values.yaml"))) <= OF_OTHERS


@pytest.mark.parametrize("chart", NAMES)
def test_its_schema_refuses_no_key_of_the_real_chart_and_takes_no_other(chart: str) -> None:
    schema = json.loads((CHARTS / chart / "values.schema.json").read_text("utf-8"))
    assert schema["additionalProperties"] is False
    assert set(schema["properties"]) == {*real_values(chart), HELMS_OWN}
