"""The page of the component `Site` names its inputs and outputs, and its program has no other."""

from __future__ import annotations

import re

import yaml

from stacks.site import OUTPUTS, SiteArgs
from tests.docs.markdown import ROOT, blocks

PAGE = ROOT / "docs" / "howto" / "use-a-site.md"


def test_the_tables_have_every_input_and_output() -> None:
    named = re.findall(r"^\| `(\w+)` \|", PAGE.read_text(), re.MULTILINE)
    assert named[: -len(OUTPUTS)] == list(SiteArgs.__annotations__)
    assert {*named[-len(OUTPUTS) :]} == {*OUTPUTS}


def test_the_programs_use_known_inputs_and_outputs() -> None:
    [text] = [block.text for block in blocks(PAGE) if block.language == "yaml"]
    example = (ROOT / "examples" / "pulumi-program" / "Pulumi.yaml").read_text()
    for program in (yaml.safe_load(text), yaml.safe_load(example)):
        assert program["resources"]["train"]["type"] == "railyard:Site"
        assert program["resources"]["train"]["properties"].keys() <= SiteArgs.__annotations__.keys()
        for name, value in program["outputs"].items():
            assert value == f"${{train.{name}}}"
            assert name in OUTPUTS
