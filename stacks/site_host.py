"""Serve `Site` to programs in every language: the component package `railyard`."""

from __future__ import annotations

import json
import re
import sys
from typing import Final

import pulumi
from pulumi.errors import InputPropertiesError
from pulumi.provider import ConstructResult
from pulumi.provider.experimental.component import ComponentProvider
from pulumi.provider.server import ComponentInitError
from pulumi.provider.server import main as serve
from typing_extensions import override

from components.project.wheel import own_version
from stacks.site import Site

PACKAGE: Final = "railyard"
SECRETS: Final = (("inputProperties", "secrets"), ("properties", "kubeconfig"))
"""The SDK's analysis of types cannot say that a property is secret."""


class SiteProvider(ComponentProvider):
    """The SDK's component host, with secrets in the schema, and refusals as one report."""

    def __init__(self) -> None:
        super().__init__([Site], PACKAGE, version=own_version())
        schema = json.loads(self.schema or "{}")
        for kind, name in SECRETS:
            schema["resources"][f"{PACKAGE}:index:Site"][kind][name]["secret"] = True
        self.schema = re.sub(r"\\n +", " ", json.dumps(schema))  # docstrings are wrapped

    @override
    def construct(
        self,
        name: str,
        resource_type: str,
        inputs: pulumi.Inputs,
        options: pulumi.ResourceOptions | None = None,
    ) -> ConstructResult:
        """Make a `Site`; a refusal reaches the user without a traceback of this process."""
        try:
            return super().construct(name, resource_type, inputs, options)
        except ComponentInitError as error:
            if isinstance(error.inner, pulumi.RunError):
                raise InputPropertiesError(str(error.inner), []) from error
            raise


def main() -> None:
    """Serve until the engine ends this process."""
    serve(SiteProvider(), sys.argv[1:])
