"""A site that takes everything from the lab's web and registry, by the settings of any site."""

from __future__ import annotations

from typing import Final, cast

from lab.hosts.lab_file import SourcesLab
from lab.site import Document, block_of, relocate, secrets_of
from lab.sources.server import REGISTRY_PORT, WEB_PORT

USER: Final = "puller"
SECRET: Final = "registry_password"  # noqa: S105 - the name of a secret, not one


def sources_of(stack: str, *, login: bool, trusted: bool) -> SourcesLab:
    """The servers of one stack, on the fourth address of its block.

    Args:
        stack: Its name.
        login: Whether the registry asks for the stack's secret `registry_password`.
        trusted: Whether the images of the hosts trust the servers' authority. Then the web asks
            for no login: a site that gives neither lets its hosts download for themselves.
    """
    known = f"{USER}:{secrets_of(stack)[SECRET]}" if login else ""
    return SourcesLab(f"{block_of(stack)}.4", known, "" if trusted else known, trusted)


def with_sources(document: Document, stack: str, config: SourcesLab, authority: str) -> Document:
    """An example as a person writes it who has a mirror and a registry of their own.

    Args:
        document: The example as plain data; it is not changed.
        stack: Name of the stack.
        config: Its servers.
        authority: Certificate that signed theirs, in PEM form; where hosts trust it, the site
            does not name it.
    """
    site = relocate(document, stack)
    mirror: Document = {"url": f"https://{config.address}:{WEB_PORT}"}
    registry: Document = {"address": f"{config.address}:{REGISTRY_PORT}"}
    for source, login in ((mirror, config.web_login), (registry, config.login)):
        if not config.trusted:
            source["ca"] = authority
        if login:
            source["login"] = {"user": USER, "password": {"secret": SECRET}}
    site["sources"] = {"mirror": mirror, "registry": registry}
    # The registry stands for the one that the example names by its address alone.
    cast("Document", site.get("kubernetes", {})).pop("registry_mirror", None)
    return site
