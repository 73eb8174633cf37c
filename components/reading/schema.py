"""The JSON schema of the site file, generated from the model."""

from __future__ import annotations

from typing import Any, Final, cast

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core.core_schema import ModelSchema

from components.catalogue.cards import CARDS
from components.catalogue.switches import MODELS
from components.core.errors import Bug
from components.core.problem import DOCS_SITE, Json
from components.model.cluster import SiteFile
from components.model.units import DNS_LABEL, PORT_TARGET
from components.reading.host_ranges import RANGE
from components.reading.load import FREE
from components.reading.members import docs_of

_OF_HOSTS: Final = ("Ssh", "Nic", "HcaPf")
"""Parts of a host, of which its template can bring some keys."""
_PORT: Final = "`<host>/<rail>` or `<switch>:<port>`: a port without exceptions."
_MEMBER: Final = "A host's name: a member without exceptions."
_SHORT_FORMS: Final = (
    ("SwitchPort", "Switch", "ports", PORT_TARGET, _PORT),
    ("IbMember", "IbPartition", "members", DNS_LABEL, _MEMBER),
)
"""Values that can also be written as one text: their place, and the text's pattern and meaning."""
_DRAFT_7: Final = "http://json-schema.org/draft-07/schema#"
_FORMATS: Final = ("ipv4", "ipv6", "uri", "date", "date-time", "hostname")
"""The formats that draft 7 has; editors and SchemaStore refuse others."""


class _Documented(GenerateJsonSchema):
    def model_schema(self, schema: ModelSchema) -> JsonSchemaValue:
        """Make pydantic's schema, and add a description to each documented key."""
        made = super().model_schema(schema)
        parts = made.get("properties", {})
        for key, text in docs_of(schema["cls"]).items():
            if key in parts:
                parts[key] = dict(sorted({**parts[key], "description": text}.items()))
        return made


def render_schema() -> dict[str, Json]:
    """Generate the schema of the files that users write; Bug: a short form no longer fits in."""
    schema = SiteFile.model_json_schema(mode="validation", schema_generator=_Documented)
    # Pydantic describes the converted value; a user can also write it as one text.
    for name, owner, key, pattern, words in _SHORT_FORMS:
        text = {"type": "string", "pattern": pattern, "description": words}
        properties = schema["$defs"][owner]["properties"]
        whole = {"$ref": f"#/$defs/{name}"}
        mended = _replaced(properties[key], whole, {"anyOf": [text, whole]})
        if mended == properties[key]:
            raise Bug(f"the schema of {owner}.{key} is not what render_schema expects")
        properties[key] = mended
    k3s = schema["$defs"]["K3sPlane"]  # the model adds `plane` before pydantic chooses
    k3s["required"] = [key for key in k3s["required"] if key != "plane"]
    k3s["properties"]["plane"]["default"] = "k3s"
    # Offer the known models; a rule, which can be waived, refuses others.
    for owner, known in (("Switch", sorted(MODELS)), ("Nic", [*CARDS])):
        model = schema["$defs"][owner]["properties"]["model"]
        del model["type"]
        model["anyOf"] = [{"enum": known}, {"type": "string"}]
    _shorten_hosts(schema)
    return {
        "$schema": GenerateJsonSchema.schema_dialect,
        **schema,
        "title": "Railyard site",
        # A place for YAML anchors; what they hold is checked at each use.
        "patternProperties": {f"^{FREE}": {}},
    }


def publish_schema() -> dict[str, Json]:
    """Return the schema in the form that SchemaStore takes: draft 7, with an address."""
    found = cast("dict[str, Json]", _as_draft_7(render_schema()))
    return {**found, "$schema": _DRAFT_7, "$id": f"{DOCS_SITE}/site.schema.json"}


def _as_draft_7(part: Json) -> Json:
    """Rewrite the keywords that are new since draft 7, in which `$ref` hides its neighbours."""
    if isinstance(part, list):
        return [_as_draft_7(item) for item in part]
    if not isinstance(part, dict):
        return part.replace("#/$defs/", "#/definitions/") if isinstance(part, str) else part
    made = {
        "definitions" if key == "$defs" else key: _as_draft_7(item)
        for key, item in part.items()
        if not (key == "discriminator" and "oneOf" in part)
        and not (key == "format" and isinstance(item, str) and item not in _FORMATS)
    }
    if "$ref" in made and len(made) > 1:
        made["allOf"] = [{"$ref": made.pop("$ref")}]
    return made


def _replaced(part: Any, old: dict[str, Any], new: dict[str, Any]) -> Any:  # noqa: ANN401 - JSON
    if part == old:
        return new
    if isinstance(part, dict):
        items = cast("dict[str, Any]", part).items()
        return {key: _replaced(item, old, new) for key, item in items}
    if isinstance(part, list):
        return [_replaced(item, old, new) for item in cast("list[Any]", part)]
    return part


def _shorten_hosts(schema: dict[str, Any]) -> None:
    """Let a template bring any key of a host, and a range stand for any text of a form."""
    parts = schema["$defs"]
    for name in _OF_HOSTS:
        parts[f"Host{name}"] = {**parts[name], "required": []}
    for name in ("HostEntry", "HostTemplate"):
        for own in _OF_HOSTS:
            old, new = ({"$ref": f"#/$defs/{each}"} for each in (own, f"Host{own}"))
            parts[name] = _replaced(parts[name], old, new)
    for name in ("HostEntry", "HostTemplate", *(f"Host{own}" for own in _OF_HOSTS)):
        parts[name]["properties"] = _with_ranges(parts[name]["properties"])
    parts["HostEntry"]["required"] = ["name"]
    parts["HostTemplate"]["required"] = []
    del parts["HostTemplate"]["properties"]["name"]


def _with_ranges(part: Any) -> Any:  # noqa: ANN401 - JSON
    """Allow a range in each text that has a form."""
    if isinstance(part, list):
        return [_with_ranges(each) for each in cast("list[Any]", part)]
    if not isinstance(part, dict):
        return part
    items = cast("dict[str, Any]", part)
    if "pattern" not in items:
        return {key: _with_ranges(each) for key, each in items.items()}
    words = {key: each for key, each in items.items() if key in {"description", "title"}}
    form = {key: each for key, each in items.items() if key not in words}
    return {**words, "anyOf": [form, {"type": "string", "pattern": RANGE}]}
