"""A request that names by digest what may be long: the lines of a step, and the list of workers.

The texts are kept on this machine, so that a state holds them once; lines that wait for a created
instance are on stdin, where holes are filled.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from pydantic import JsonValue

from components.core.key_values import parse_state
from components.core.placeholder import has_placeholder
from components.core.to_json import to_json
from components.remote.lines import parse_lines, render_lines
from components.remote.tool_files import digest_of, load_text


def split_lines(lines: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The lines that are known, and those that wait for a created instance."""
    waiting = {key: value for key, value in lines.items() if has_placeholder(value)}
    return {key: lines[key] for key in lines.keys() - waiting.keys()}, waiting


def render_named(request: object, texts: Mapping[str, str], waiting: Mapping[str, str]) -> str:
    """A request, a line a value: a preview shows the changed ones.

    Args:
        request: The request.
        texts: Field to the text that is named by its digest.
        waiting: Lines that wait for a created instance.
    """
    digests = {key: digest_of(text) for key, text in texts.items()}
    return render_lines({**to_json(request), **digests, "of_instance": {**waiting}})


def load_named(text: str, field: str, *others: str) -> dict[str, JsonValue]:
    """A request as a document, with `field` as its lines and the others as their texts.

    Raises:
        UsageError: What it names is not on this machine.
    """
    try:
        document = parse_lines(text)
    except ValueError:
        document = {}
    digests = {key: document.pop(key, None) for key in (field, *others)}
    texts = {key: load_text(key, name) for key, name in digests.items() if isinstance(name, str)}
    if len(texts) == len(digests):
        own = cast("dict[str, JsonValue]", document.pop("of_instance", {}))
        lines = parse_state(texts.pop(field)).values
        document |= {field: {**lines, **own}, **texts}
    return document
