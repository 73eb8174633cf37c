"""The patterns of the model in words, and problems of values in place of a secret's reference."""

from __future__ import annotations

import re
from collections.abc import Callable
from difflib import get_close_matches
from typing import Final

from components.catalogue.switches import switch_model
from components.core.problem import Finding, Place, SpecPath, render_path
from components.core.templates import typed_table
from components.model import (
    cards,
    environments,
    fabric,
    hosts,
    infiniband,
    jobs,
    kernel,
    kubernetes,
    sources,
    switch_models,
    texts,
    units,
)

_MODULES: Final = (
    cards, environments, fabric, hosts, infiniband, jobs, kernel, kubernetes, sources,
    switch_model, switch_models, texts, units,
)  # fmt: skip
_WORDS: Final = typed_table(dict[str, dict[str, str]], __file__)
PATTERNS: Final = {
    str(getattr(module, constant)): words
    for module in _MODULES
    for constant, words in _WORDS.get(module.__name__.rpartition(".")[2], {}).items()
}
"""Pattern to its meaning in words."""
_VERSIONS: Final = (
    kubernetes.KUBERNETES_VERSION, environments.ESXI_RELEASE, units.K3S_RELEASE,
    units.EXACT_RELEASE, units.DRIVER_TAG, units.RELEASE, cards.GPU_DRIVER, cards.FIRMWARE_VERSION,
)  # fmt: skip
"""Patterns of versions: a bare number can only be the beginning of one."""
SOURCES: Final = ("secret", "env", "command")
_NEAR: Final = 0.8
_SEALED: Final = "secure"
"""The key before an encrypted value in a stack file; it resembles misspellings of `secret`."""
_OTHER_WORDS: Final = {
    **dict.fromkeys(("name", "key", "config"), "secret"),
    **dict.fromkeys(("environment", "env_var", "variable"), "env"),
    **dict.fromkeys(("cmd", "exec", "run", "vault", "file", "path"), "command"),
}
"""Words of other tools to the key that Railyard uses."""
_PATH: Final = re.compile(
    r"(~|\.{1,2}|\$HOME|\$\{HOME\}|/(home|root|etc|Users|opt|var|tmp|mnt|srv|run|usr))/[\w.@+/-]+"
)
"""Beginnings of paths that passwords and keys never have; base64 includes `/`, so `/` alone is not
one."""
_FORMS: Final = "{secret: NAME}, {env: NAME} or {command: [PROGRAM, ARGUMENT]}"


def _as_label(text: str) -> str:
    return re.sub(r"[^a-z0-9-]+", "-", text.lower()).strip("-")[:63].strip("-")


def _as_release(text: str) -> str:
    return f"v{text.removeprefix('v').partition('+')[0]}"


def _over_https(text: str) -> str:
    return re.sub(r"^http://", "https://", text)


def _on_one_line(text: str) -> str:
    return "" if "\x1b" in text else " ".join(text.split())


_MENDS: Final[dict[str, Callable[[str], str]]] = {
    units.DNS_LABEL: _as_label,
    units.POOL_NAME: lambda text: _as_label(text)[:58].strip("-"),
    units.SHA_256: str.lower,
    units.MACHINE_ID: lambda text: re.sub(r"[^0-9a-f]", "", text.lower())[:32],
    units.NODE_NAME: str.lower,
    switch_models.PCI_ID: str.lower,
    switch_model.MODE: lambda text: text.lower().removesuffix("g"),
    infiniband.PARTITION_NAME: lambda text: re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-")[:32],
    sources.REGISTRY_ADDRESS: lambda text: text.partition("://")[2].rstrip("/"),
    sources.PROXY_URL: lambda text: text if "//" in text or not text else f"http://{text}",
    cards.PACKAGE_NAME: lambda text: text.partition("=")[0],
    cards.CARD_SERIAL: str.strip,
    units.SWITCH_SERIAL: str.strip,
    units.PINNED_RPM: _over_https,
    units.PINNED_SOURCE: _over_https,
    units.K3S_RELEASE: lambda text: f"{_as_release(text)}+k3s1",
    kubernetes.KUBERNETES_RELEASE: _as_release,
    kubernetes.KUBESPRAY_TAG: lambda text: f"v{text.removeprefix('v')}",
    kubernetes.COMMIT: str.lower,
    units.REGISTRY: lambda text: re.sub(r"^https?://", "", text).partition("/")[0],
    jobs.CASE_NAME: lambda text: _as_label(text)[:20].strip("-"),
    fabric.RAIL_RESOURCE: lambda text: "_".join(
        re.findall("[A-Za-z0-9]+", text.rpartition("/")[2])
    ),
    units.RESOURCE_NAME: lambda text: text.rpartition("/")[2],
    environments.LOCATION: str.lower,
    environments.ESXI_RELEASE: lambda text: re.sub(r"[ .]?[uU](pdate *)?(?=[0-9])", "U", text),
    units.HTTPS: _over_https,
    units.ENVIRONMENT_NAME: lambda text: re.sub(r"[^A-Za-z0-9_]+", "_", text).strip("_"),
    texts.ANY_LINE: _on_one_line,
    texts.LINE: _on_one_line,
    kubernetes.VARIABLE: lambda text: re.sub(r"[^a-z0-9_]+", "_", text.lower()).strip("_"),
}
"""Pattern to a function that corrects a refused text."""


def describe_pattern(pattern: str) -> str:
    """Describe a pattern in words."""
    return PATTERNS.get(pattern, f"a text of the form {pattern}")


def mend_text(pattern: str, text: str) -> str:
    """Correct a refused text as the user probably meant it; empty if that does not match."""
    better = _MENDS[pattern](text) if pattern in _MENDS else ""
    return better if better and re.match(pattern, better) else ""


def offer_number(pattern: str, value: float) -> str:
    """Explain how to write a text if the file has a number.

    The fix offers the number in quotes only if it can be the intended text: YAML reads 24.10 as
    24.1.
    """
    if isinstance(value, int) and pattern not in _VERSIONS and re.match(pattern, str(value)):
        return f'write a text, with quotes: "{value}".'
    return f"write {describe_pattern(pattern)}, in quotes."


def no_source(path: SpecPath) -> Finding:
    """Report an unknown key of a secret; if it resembles one of the three, it is a misspelling."""
    key = str(path[-1])
    near = get_close_matches(key.lower(), SOURCES, 1, _NEAR)
    meant = _OTHER_WORDS.get(key.lower()) or next(iter(near), None)
    if meant is None or key.lower() == _SEALED:
        return open_secret(path)
    what = f"`{key}` is not a key of {render_path(path[:-1])}. Did you mean `{meant}`?"
    where, fix = (Place(path, "(not shown)"),), f"correct the spelling: {_FORMS}."
    return Finding(what, where, fix, rule="unknown-key", wanted=meant)


def secret_path(path: SpecPath, value: object) -> Finding | None:
    """Report the path of a file in place of a secret's reference; None for other values."""
    if not isinstance(value, str) or not _PATH.fullmatch(value):
        return None
    key = str(path[-1])
    name = f"ssh_{key}" if key in {"private_key", "passphrase"} else key
    # Without a shell nothing replaces `~`.
    whole = re.sub(r"^(~|\$HOME|\$\{HOME\})/", "/home/NAME/", value)
    return Finding(
        rule="wrong-type",
        what=f"{render_path(path)} is a path: {value}; a reference to a secret is expected.",
        where=(Place(path, value),),
        fix=f"write {{secret: {name}}}, and put the file's content into the stack: `pulumi config"
        f" set --secret railyard:{name} < {value}`; or {{command: [cat, {whole}]}}"
        f"{', or agent: true in its place' if key == 'private_key' else ''}.",
    )


def open_secret(path: SpecPath) -> Finding:
    """Report a value in place of a reference, without showing it: reports get around."""
    return Finding(
        rule="wrong-type",
        what=f"{render_path(path)} holds a value instead of a reference to a secret.",
        where=(Place(path, "(not shown)"),),
        fix="write {secret: NAME} and keep the value encrypted: `pulumi config set --secret "
        "railyard:NAME`; or {env: NAME}, or {command: [PROGRAM, ARGUMENT]}. If it was the real one,"
        " change it on the device: it has been readable.",
    )
