"""The JSON schema of the site file, generated from the model."""

from __future__ import annotations

from typing import cast

from pydantic.json_schema import GenerateJsonSchema

from components.errors import Bug
from components.model.cluster import ClusterSpec
from components.model.problem import Json
from components.model.units import PORT_TARGET

_PORT = {"$ref": "#/$defs/SwitchPort"}
_SHORT_PORT = {
    "type": "string",
    "pattern": PORT_TARGET,
    "description": "`<host>/<rail>` or `<switch>:<port>`: a port without exceptions.",
}


def render_schema() -> dict[str, Json]:
    """Generate the schema of what the user writes (not of what the model keeps).

    Raises:
        Bug: The model has changed, and the short form of a port no longer fits in.
    """
    schema = ClusterSpec.model_json_schema(mode="validation")
    ports = schema["$defs"]["Switch"]["properties"]["ports"]
    if _PORT not in ports.values():
        raise Bug("the schema of a switch's ports is not what render_schema expects")
    # Pydantic describes what a port becomes; a user may also write it as one text.
    short = {
        key: {"anyOf": [_SHORT_PORT, _PORT]} if part == _PORT else part
        for key, part in ports.items()
    }
    schema["$defs"]["Switch"]["properties"]["ports"] = short
    titled = {
        "$schema": GenerateJsonSchema.schema_dialect,
        **schema,
        "title": "Railyard site",
    }
    return cast("dict[str, Json]", titled)
