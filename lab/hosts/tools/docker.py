"""`docker`: images, the registry, and the dispatch to what containers do.

Texts: Docker 24's client and daemon.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from typing import Final

from lab.hosts.accounts import find_account, groups_of, name_of_uid
from lab.hosts.containers import DOCKERD_CONFIG, ContainerHost
from lab.hosts.docker_state import (
    PUBLIC_REGISTRIES,
    Image,
    digest_of,
    full_reference,
    load_registry,
    registry_host,
    repository,
    save_registry,
    save_state,
)
from lab.hosts.go_template import Json, TemplateError, render
from lab.hosts.stream_tools import Streams
from lab.hosts.tools.call import ToolCall, ToolResult
from lab.hosts.tools.docker_build import read_build
from lab.hosts.tools.docker_registry import ask_registry, listens
from lab.hosts.tools.docker_run import ContainerCommands, no_such
from lab.hosts.tools.options import split_options

VERSION: Final = "24.0.7"
NO_DAEMON: Final = (
    "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. "
    "Is the docker daemon running?\n"
)
DENIED: Final = (
    "permission denied while trying to connect to the Docker daemon socket at "
    "unix:///var/run/docker.sock\n"
)
Verb = Callable[[ToolCall, Streams], Awaitable[ToolResult]]


def daemon_error(text: str) -> ToolResult:
    """A refusal by the daemon."""
    return ToolResult(1, err=f"Error response from daemon: {text}\n")


class Docker:
    """The docker client and daemon of one host."""

    def __init__(self, host: ContainerHost) -> None:
        """Play Docker on `host`."""
        self._host = host
        containers = ContainerCommands(host, self.default_runtime)
        self._verbs: dict[str, Verb] = {
            "version": self._version,
            "info": self._info,
            "login": self._login,
            "logout": self._logout,
            "pull": self._pull,
            "push": self._push,
            "tag": self._tag,
            "build": self._build,
            "images": self._images,
            "rmi": self._remove_image,
            **containers.verbs,
        }
        self._image_verbs: dict[str, Verb] = {
            "inspect": self._inspect_image,
            "rm": self._remove_image,
            "ls": self._images,
            "pull": self._pull,
            "push": self._push,
            "tag": self._tag,
            "build": self._build,
        }

    async def run(self, call: ToolCall, streams: Streams) -> ToolResult:
        """Run one command."""
        if call.uid and not self._in_group(call):
            return ToolResult(1, err=DENIED)
        if not self._host.docker_runs():
            return ToolResult(1, err=NO_DAEMON)
        words = list(call.argv)
        verbs = self._verbs
        if words[:1] == ["image"]:
            verbs = self._image_verbs
            words = words[1:]
        elif words[:1] == ["container"]:
            words = words[1:]
        verb = verbs.get(words[0]) if words else None
        if verb is None:
            text = f"docker: '{' '.join(call.argv)}' is not a docker command.\n"
            return call.unmodelled(ToolResult(1, err=text))
        shorter = ToolCall(
            call.tool, tuple(words[1:]), call.uid, call.gid, call.cwd, call.model, call.root,
            call.env, call.umask, call.stdin_text,
        )  # fmt: skip
        return await verb(shorter, streams)

    def _in_group(self, call: ToolCall) -> bool:
        account = find_account(call.root, name_of_uid(call.root, call.uid))
        return account is not None and "docker" in groups_of(call.root, account)

    def default_runtime(self) -> str:
        """What the daemon uses now: its configuration as of its start or last reload."""
        path = self._host.inner_path(DOCKERD_CONFIG)
        text = path.read_text() if path.exists() else ""
        config: dict[str, object] = json.loads(text) if text.strip() else {}
        return str(config.get("default-runtime", "runc"))

    async def _info(self, call: ToolCall, _: Streams) -> ToolResult:
        value: dict[str, Json] = {
            "DefaultRuntime": self.default_runtime(),
            "ServerVersion": VERSION,
        }
        plain = "".join(f" {key}: {text}\n" for key, text in value.items())
        return _formatted(call, value, plain)

    async def _version(self, call: ToolCall, _: Streams) -> ToolResult:
        plain = f"Client:\n Version: {VERSION}\n\nServer:\n Version: {VERSION}\n"
        versions: dict[str, Json] = {
            "Client": {"Version": VERSION},
            "Server": {"Version": VERSION},
        }
        return _formatted(call, versions, plain)

    def _auth_file(self, call: ToolCall) -> str:
        folder = call.env.get("DOCKER_CONFIG") or f"{call.env.get('HOME', '/root')}/.docker"
        return f"{folder}/config.json"

    def _logins(self, call: ToolCall) -> dict[str, dict[str, str]]:
        path = self._host.inner_path(self._auth_file(call))
        config: dict[str, dict[str, dict[str, str]]] = {}
        if path.exists():
            config = json.loads(path.read_text())
        return config.get("auths", {})

    def _save_logins(self, call: ToolCall, logins: dict[str, dict[str, str]]) -> None:
        path = self._host.inner_path(self._auth_file(call))
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.write_text(json.dumps({"auths": logins}, indent=1) + "\n")
        path.chmod(0o600)

    async def _login(self, call: ToolCall, _: Streams) -> ToolResult:
        options = split_options(
            call.argv, ("-u", "--username", "-p", "--password"), ("--password-stdin",), mixed=True
        )
        if isinstance(options, str):
            return call.unmodelled(ToolResult(125, err=f"unknown flag: {options}\n"))
        registry = options.words[0] if options.words else "docker.io"
        password = options.last("-p", "--password")
        if options.has("--password-stdin"):
            password = (await asyncio.to_thread(call.stdin_text)).rstrip("\r\n")
        user = options.last("-u", "--username")
        if not user or not password:
            return ToolResult(1, err="Error: Cannot perform an interactive login from a non TTY\n")
        account = "ngc" if registry == "nvcr.io" else "registry"
        if password != f"railyard-lab-{self._host.stack}-{account}":
            return daemon_error(
                f'Get "https://{registry}/v2/": unauthorized: incorrect username or password'
            )
        logins = self._logins(call)
        logins[registry] = {"auth": base64.b64encode(f"{user}:{password}".encode()).decode()}
        self._save_logins(call, logins)
        return ToolResult(out="Login Succeeded\n")

    async def _logout(self, call: ToolCall, _: Streams) -> ToolResult:
        registry = call.argv[0] if call.argv else "docker.io"
        logins = self._logins(call)
        if logins.pop(registry, None) is None:
            return ToolResult(out=f"Not logged in to {registry}\n")
        self._save_logins(call, logins)
        return ToolResult(out=f"Removing login credentials for {registry}\n")

    async def _fetch(self, call: ToolCall, reference: str) -> Image | ToolResult:
        """An image from its registry."""
        host = registry_host(reference)
        if host in PUBLIC_REGISTRIES:
            digest = digest_of(reference)
            return Image(digest_of("public", reference), digests={repository(reference): digest})
        if listens(host):
            trust = self._host.lab / "sources" / "trusted.crt"
            auth = self._logins(call).get(host, {}).get("auth", "")
            found = await asyncio.to_thread(ask_registry, reference, trust, auth)
            return found if isinstance(found, Image) else daemon_error(found)
        if host not in self._logins(call):
            return daemon_error(
                f"pull access denied for {repository(reference)}, repository does not exist or "
                "may require 'docker login': denied: requested access to the resource is denied"
            )
        for known, image in load_registry(self._host.lab).images.items():
            digest = image.digests.get(repository(known), "")
            if reference in (known, f"{repository(known)}@{digest}"):
                return image
        return daemon_error(f"manifest for {reference} not found: manifest unknown")

    async def _pull(self, call: ToolCall, _: Streams) -> ToolResult:
        options = split_options(call.argv, ("--platform",), ("-q", "--quiet"), mixed=True)
        if isinstance(options, str) or len(options.words) != 1:
            return call.unmodelled(
                ToolResult(1, err='"docker pull" requires exactly 1 argument.\n')
            )
        reference = full_reference(options.words[0])
        found = await self._fetch(call, reference)
        if isinstance(found, ToolResult):
            return found
        state = self._host.state()
        known = state.images.get(reference)
        fresh = known is not None and known.id == found.id
        state.images[reference] = found
        save_state(self._host.root, state)
        digest = found.digests.get(repository(reference), "")
        what = "Image is up to date" if fresh else "Downloaded newer image"
        return ToolResult(out=f"Digest: {digest}\nStatus: {what} for {reference}\n{reference}\n")

    async def _push(self, call: ToolCall, _: Streams) -> ToolResult:
        reference = full_reference(call.argv[-1]) if call.argv else ""
        state = self._host.state()
        image = state.images.get(reference)
        if image is None:
            text = f"An image does not exist locally with the tag: {repository(reference)}\n"
            return ToolResult(1, err=text)
        if registry_host(reference) not in self._logins(call):
            return ToolResult(1, err="denied: requested access to the resource is denied\n")
        digest = digest_of("manifest", image.id)
        image.digests[repository(reference)] = digest
        registry = load_registry(self._host.lab)
        registry.images[reference] = image
        save_registry(self._host.lab, registry)
        save_state(self._host.root, state)
        tag = reference.rpartition(":")[2]
        return ToolResult(
            out=f"The push refers to repository [{repository(reference)}]\n"
            f"{tag}: digest: {digest} size: 4711\n"
        )

    async def _tag(self, call: ToolCall, _: Streams) -> ToolResult:
        state = self._host.state()
        if len(call.argv) != len(("from", "to")):
            return ToolResult(1, err='"docker tag" requires exactly 2 arguments.\n')
        source = state.images.get(full_reference(call.argv[0]))
        if source is None:
            return daemon_error(f"No such image: {full_reference(call.argv[0])}")
        state.images[full_reference(call.argv[1])] = source
        save_state(self._host.root, state)
        return ToolResult()

    async def _build(self, call: ToolCall, _: Streams) -> ToolResult:
        build = read_build(call, self._host.inner_path)
        if isinstance(build, ToolResult):
            return build
        state = self._host.state()
        for base in build.bases:
            found = state.images.get(full_reference(base)) if not build.pull else None
            image = found or await self._fetch(call, full_reference(base))
            if isinstance(image, ToolResult):
                return image
        for tag in build.tags:
            state.images[full_reference(tag)] = build.image
        save_state(self._host.root, state)
        return ToolResult(err=build.log)

    async def _images(self, call: ToolCall, _: Streams) -> ToolResult:
        rows = "".join(
            f"{repository(name):<50} {name.rpartition(':')[2]:<20} {image.id[7:19]}\n"
            for name, image in sorted(self._host.state().images.items())
        )
        quiet = "-q" in call.argv or "--quiet" in call.argv
        ids = "".join(f"{image.id[7:19]}\n" for image in self._host.state().images.values())
        return ToolResult(out=ids if quiet else f"{'REPOSITORY':<50} {'TAG':<20} IMAGE ID\n{rows}")

    async def _remove_image(self, call: ToolCall, _: Streams) -> ToolResult:
        state = self._host.state()
        names = [full_reference(word) for word in call.argv if not word.startswith("-")]
        out = ""
        for name in names:
            image = state.images.get(name)
            if image is None:
                return ToolResult(1, out, f"Error: No such image: {name}\n")
            user = next((c for c in state.containers.values() if c.image_id == image.id), None)
            if user is not None and sum(i.id == image.id for i in state.images.values()) == 1:
                kind = "running" if user.running else "stopped"
                return daemon_error(
                    f'conflict: unable to remove repository reference "{name}" (must force) - '
                    f"container {user.id[:12]} is using its referenced image ({kind})"
                )
            del state.images[name]
            out += f"Untagged: {name}\n"
        save_state(self._host.root, state)
        return ToolResult(out=out)

    async def _inspect_image(self, call: ToolCall, _: Streams) -> ToolResult:
        options = split_options(call.argv, ("-f", "--format"), (), mixed=True)
        if isinstance(options, str) or not options.words:
            return call.unmodelled(ToolResult(125, err=f"unknown flag: {options}\n"))
        name = options.words[0]
        state = self._host.state()
        image = state.images.get(full_reference(name)) or next(
            (i for i in state.images.values() if i.id == name), None
        )
        if image is None:
            return ToolResult(1, "[]\n", no_such("image", name))
        tags = [ref for ref, known in state.images.items() if known.id == image.id]
        env: list[Json] = [f"{key}={text}" for key, text in image.env.items()]
        digests: list[Json] = [f"{repo}@{digest}" for repo, digest in image.digests.items()]
        labels: dict[str, Json] = {**image.labels}
        value: dict[str, Json] = {
            "Id": image.id,
            "RepoTags": [*tags],
            "RepoDigests": digests,
            "Config": {"Labels": labels, "Env": env},
        }
        return _formatted(call, value, json.dumps([value], indent=4) + "\n")


def _formatted(call: ToolCall, value: dict[str, Json], plain: str) -> ToolResult:
    options = split_options(call.argv, ("-f", "--format"), (), mixed=True)
    if isinstance(options, str):
        return call.unmodelled(ToolResult(125, err=f"unknown flag: {options}\n"))
    template = options.last("-f", "--format")
    if not template:
        return ToolResult(out=plain)
    try:
        return ToolResult(out=render(template, value) + "\n")
    except TemplateError as error:
        text = f"template parsing error: template: :1: {error}\n"
        return call.unmodelled(ToolResult(1, err=text))
