"""The patterns of the model in words, and problems of values in place of a secret's reference."""

from __future__ import annotations

import re
from collections.abc import Callable
from difflib import get_close_matches
from typing import Final

from components.catalogue.switches.switch_model import MODE
from components.core.problem import Finding, Place, SpecPath, render_path
from components.model import (
    cards,
    environments,
    infiniband,
    kubernetes,
    sources,
    texts,
    units,
)
from components.model.fabric import RAIL_RESOURCE
from components.model.hosts import DOMAIN_NAME
from components.model.jobs import CASE_NAME, GATEWAY
from components.model.kernel import SYSCTL_VALUE
from components.model.switch_models import PCI_ID


def _as_label(text: str) -> str:
    return re.sub(r"[^a-z0-9-]+", "-", text.lower()).strip("-")[:63].strip("-")


def _as_release(text: str) -> str:
    return f"v{text.removeprefix('v').partition('+')[0]}"


def _over_https(text: str) -> str:
    return re.sub(r"^http://", "https://", text)


def _on_one_line(text: str) -> str:
    return "" if "\x1b" in text else " ".join(text.split())


PATTERNS: Final[dict[str, str]] = {
    units.DNS_LABEL: "a name of lower-case letters, digits and inner hyphens, at most 63 long",
    units.POOL_NAME: "a name of lower-case letters, digits and inner hyphens, at most 58 long "
    "before a number",
    units.SHA_256: "a SHA-256 checksum of 64 hexadecimal digits in small letters",
    units.MACHINE_ID: "the 32 hexadecimal digits of the host's /etc/machine-id",
    units.PORT_TARGET: "a text of the form <host>/<rail>, for example gpu01/rail-0, or "
    "<switch>:<port>",
    DOMAIN_NAME: "a name of at most 63 letters, digits, dots, hyphens and underscores",
    units.NODE_NAME: "a name of lower-case letters, digits, inner hyphens and dots",
    units.FOLDER: "an absolute path of letters, digits, dots, hyphens and underscores",
    PCI_ID: "a PCI id of four hex digits in small letters, such as 15b3",
    MODE: "parts and their speed in Gbit/s, for example 2x400",
    units.LOGIN: "a login name of letters, digits, dots, hyphens and underscores",
    infiniband.IB_PORT: "the name of a port of an InfiniBand switch such as 1/1/1 or sw1p1",
    infiniband.PARTITION_NAME: "a name of at most 32 letters, digits, hyphens and underscores "
    "that begins with a letter",
    sources.HTTPS_ADDRESS: "an https address without a login or a query in it",
    sources.REGISTRY_ADDRESS: "a registry such as registry.site1.example:5000/railyard, without a "
    "scheme",
    sources.EVIDENCE_STORE: "s3://BUCKET/PREFIX, oci://REGISTRY/REPOSITORY or an absolute path",
    sources.S3_REGION: "a region such as eu-central-1",
    sources.MINISIGN_KEY: "a public key of minisign, as the second line of its .pub file",
    sources.PEM_CERTIFICATES: "the lines of a certificate file, which begin with -----BEGIN",
    units.IMAGE: "an image such as 192.168.100.10:5000/nccl-roce-test:1.0, without a scheme",
    sources.PROXY_URL: "an address such as http://proxy.example.com:3128, without a user and "
    "password",
    sources.NO_PROXY: "a name, an address or a network, such as .example.com or 10.0.0.0/8",
    cards.FIRMWARE_VERSION: "a firmware release such as 28.43.1014",
    SYSCTL_VALUE: "a number, or a text of letters, digits, spaces and ._:/,+-",
    cards.GPU_DRIVER: "a version of a GPU driver such as 580.126.20",
    cards.PACKAGE_NAME: "the name of a package without a version, such as doca-ofed",
    cards.CARD_SERIAL: "a serial number as `lspci -vv` shows it, such as MT2012X12345",
    units.SWITCH_SERIAL: "a serial number as the switch shows it, such as MT1845X03127",
    texts.RULE_NAME: "the name of a rule, such as numa-leaf",
    units.PINNED_RPM: "an RPM package: an absolute path on the hosts or an https address that "
    "ends in .rpm",
    units.PINNED_SOURCE: "an absolute path on the hosts or an https address",
    units.K3S_RELEASE: "an exact release of K3s such as v1.36.3+k3s1",
    units.DRIVER_TAG: "a tag of the driver container such as doca3.4.1-26.04-1.1.0.0-1",
    kubernetes.CPU_LIST: "a list of CPUs as Linux writes it, such as 0-1,64-65",
    GATEWAY: "an http or https address without a user and a query, such as "
    "http://pushgateway.monitoring:9091",
    kubernetes.CRON: "five fields of cron, such as 0 */12 * * *",
    kubernetes.KUBERNETES_RELEASE: "an exact release of Kubernetes such as v1.35.4",
    kubernetes.KUBESPRAY_TAG: "an exact release of kubespray such as v2.31.0",
    kubernetes.COMMIT: "a whole commit of 40 hexadecimal digits in small letters",
    infiniband.IPOIB_DEVICE: "a name of a network device, at most 15 letters, digits and ._-",
    units.EXACT_RELEASE: "one exact release of a chart such as v26.3.3",
    units.REGISTRY: "a registry of the form host:port such as 192.168.100.10:5000, without a "
    "scheme or a path",
    CASE_NAME: "a name of at most 20 lower-case letters, digits and inner hyphens",
    RAIL_RESOURCE: "a name of letters, digits and inner underscores without prefix, at most 63 "
    "long",
    units.RESOURCE_NAME: "a name of letters, digits and inner dots, hyphens and underscores, at "
    "most 63 long",
    environments.LOCATION: "a location as the cloud's console shows it, such as us-east1-a",
    environments.INSTANCE_IMAGE: "an image of the form <name>:<tag> such as ubuntu22.04:latest",
    environments.ESXI_RELEASE: "an ESXi release such as 7.0U2 or 8.0 (`esxcli system version get` "
    "shows it)",
    kubernetes.KUBERNETES_VERSION: "a version such as v1.36.3, as `kubectl version` calls the "
    "server version",
    units.HTTPS: "an https address",
    units.ENVIRONMENT_NAME: "the name of an environment variable such as NCCL_IB_SL",
    texts.ABSOLUTE_PATH: "a path from the root on, without `..`, such as /opt/nccl-tests/build",
    texts.EXPORT: "a path from the root on, without `..`, such as /export/data",
    texts.ANY_LINE: "a text on one line without control characters",
    texts.LINE: "words on one line without control characters",
    texts.MODEL_NAME: "the name of a model: letters, digits, blanks and ._()/+:-",
    texts.NAME: "a name of letters, digits, dots, hyphens and underscores",
    texts.PLUGGED: "words of letters, digits, blanks and ._/:,()+-",
    texts.LOCAL_PATH: "a path of letters, digits, blanks and ._~/+@=,-",
    texts.CHART: "a chart such as gpu-operator, charts/own or oci://registry.example/charts/x",
    texts.REGISTRY_USER: "a user of letters, digits and $_.+@=~/-",
    texts.LABEL_VALUE: "a label's value: letters, digits and inner ._-, at most 63 long",
    texts.QUALIFIED_NAME: "a key such as nvidia.com/gpu: at most 63 letters, digits and inner ._- "
    "after a DNS name",
    texts.HCA: "the name of an RDMA device such as mlx5_0",
    cards.TOOLKIT_VERSION: "a version of the container toolkit such as 1.17.8-1",
    units.RELEASE: "a version such as 3.2.0 or 24.10-1.1.4.0",
    r"^[a-z][a-z0-9_]*$": "a name of lower-case letters, digits and underscores",
}
"""Pattern to its meaning in words."""
_MENDS: Final[dict[str, Callable[[str], str]]] = {
    units.DNS_LABEL: _as_label,
    units.POOL_NAME: lambda text: _as_label(text)[:58].strip("-"),
    units.SHA_256: str.lower,
    units.MACHINE_ID: lambda text: re.sub(r"[^0-9a-f]", "", text.lower())[:32],
    units.NODE_NAME: str.lower,
    PCI_ID: str.lower,
    MODE: lambda text: text.lower().removesuffix("g"),
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
    CASE_NAME: lambda text: _as_label(text)[:20].strip("-"),
    RAIL_RESOURCE: lambda text: re.sub(r"[^A-Za-z0-9]+", "_", text.rpartition("/")[2]).strip("_"),
    units.RESOURCE_NAME: lambda text: text.rpartition("/")[2],
    environments.LOCATION: str.lower,
    environments.ESXI_RELEASE: lambda text: re.sub(r"[ .]?[uU](pdate *)?(?=[0-9])", "U", text),
    units.HTTPS: _over_https,
    units.ENVIRONMENT_NAME: lambda text: re.sub(r"[^A-Za-z0-9_]+", "_", text).strip("_"),
    texts.ANY_LINE: _on_one_line,
    texts.LINE: _on_one_line,
    r"^[a-z][a-z0-9_]*$": lambda text: re.sub(r"[^a-z0-9_]+", "_", text.lower()).strip("_"),
}
"""Pattern to a function that corrects a refused text."""
_VERSIONS: Final = frozenset(
    {
        kubernetes.KUBERNETES_VERSION,
        environments.ESXI_RELEASE,
        units.K3S_RELEASE,
        units.EXACT_RELEASE,
        units.DRIVER_TAG,
        cards.GPU_DRIVER,
        cards.FIRMWARE_VERSION,
        units.RELEASE,
    }
)
"""Patterns of versions: a bare number can only be the beginning of one."""


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


SOURCES: Final = ("secret", "env", "command")
_NEAR: Final = 0.8
_SEALED: Final = "secure"
"""The key before an encrypted value in a stack file; it resembles misspellings of `secret`."""
_OTHER_WORDS: Final = {
    "name": "secret",
    "key": "secret",
    "config": "secret",
    "environment": "env",
    "env_var": "env",
    "variable": "env",
    "cmd": "command",
    "exec": "command",
    "run": "command",
    "vault": "command",
    "file": "command",
    "path": "command",
}
"""Words of other tools to the key that Railyard uses."""
_PATH: Final = re.compile(
    r"(~|\.{1,2}|\$HOME|\$\{HOME\}|/(home|root|etc|Users|opt|var|tmp|mnt|srv|run|usr))/[\w.@+/-]+"
)
"""Beginnings of paths that passwords and keys never have; base64 includes `/`, so `/` alone is not
one."""
_FORMS: Final = "{secret: NAME}, {env: NAME} or {command: [PROGRAM, ARGUMENT]}"


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
