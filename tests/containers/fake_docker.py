"""A docker client on PATH for the tests of the scripts: images, containers and a registry as JSON.

It knows only the calls that the scripts make; any other ends with docker's own kind of error.
A script calls it up to ten times: it imports what costs nothing, so not json, pathlib and typing.
"""

# ruff: noqa: PTH108, PTH110, PTH118, PTH120, PTH123 - see above

from __future__ import annotations

import binascii
import marshal
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

STATE = os.environ.get("FAKE_DOCKER", "docker.state")
REGISTRY = os.path.join(os.path.dirname(STATE), "registry.state")
PASSWORD = "registry-secret"


def fail(text: str) -> NoReturn:
    sys.stderr.write(text + "\n")
    sys.exit(1)


def load(path: str, empty: dict[str, Any]) -> dict[str, Any]:
    if not os.path.exists(path):
        return empty
    with open(path, "rb") as file:
        return marshal.load(file)  # noqa: S302 - the test's own file


def save(path: str, state: dict[str, Any]) -> None:
    with open(path, "wb") as file:
        marshal.dump(state, file)


def image_id(labels: dict[str, str], name: str) -> str:
    return f"sha256:{binascii.crc32(repr([labels, name]).encode()):064x}"


def options(args: list[str], name: str) -> list[str]:
    found = [args[i + 1] for i, arg in enumerate(args) if arg == name]
    return found + [arg.partition("=")[2] for arg in args if arg.startswith(f"{name}=")]


def render(template: str, body: dict[str, Any]) -> str:
    if template.startswith("{{index .Config.Labels"):
        return str(body["labels"].get(template.split('"')[1], ""))
    return str(body[{"{{.State.Status}}": "state", "{{.Config.Image}}": "name",
                     "{{.Image}}": "image", "{{.Id}}": "id"}[template]])  # fmt: skip


def inspect(kind: dict[str, Any], template: str, name: str) -> None:
    if name not in kind:
        fail(f"Error: No such object: {name}")
    sys.stdout.write(render(template, kind[name]) + "\n")


def run_container(state: dict[str, Any], args: list[str]) -> None:
    image = args[-3]
    assert args[-2:] == ["sleep", "infinity"], args
    if image not in state["images"]:
        fail(f"Unable to find image '{image}' locally")
    name = options(args, "--name")[0]
    if name in state["containers"]:
        fail(f"Conflict. The container name /{name} is already in use")
    labels = state["images"][image]["labels"] | dict(
        label.split("=", 1) for label in options(args, "--label")
    )
    state["containers"][name] = {
        "state": "running", "name": image, "image": state["images"][image]["id"],
        "labels": labels, "args": args,
    }  # fmt: skip


def login_file(name: str) -> str:
    return os.path.join(os.environ.get("DOCKER_CONFIG", "/none"), name)


def registry(verb: str, state: dict[str, Any], name: str) -> None:
    if state["login"] and not os.path.exists(login_file(name.partition("/")[0])):
        fail("denied: access forbidden")
    held = load(REGISTRY, {})
    if verb == "push":
        save(REGISTRY, held | {name: state["images"][name]})
    elif name in held:
        state["images"][name] = held[name]
    else:
        fail(f"manifest for {name} not found: manifest unknown")


def login(args: list[str]) -> None:
    if sys.stdin.read().strip() != PASSWORD:
        fail("unauthorized: incorrect username or password")
    open(login_file(args[-1]), "wb").close()


def build(state: dict[str, Any], args: list[str]) -> None:
    name = options(args, "--tag")[0]
    labels = dict(label.split("=", 1) for label in options(args, "--label"))
    with open(os.path.join(args[-1], "Dockerfile")) as file:
        dockerfile = file.read()
    body = {"labels": labels, "dockerfile": dockerfile, "arguments": options(args, "--build-arg")}
    state["images"][name] = body | {"id": image_id(labels, name)}


def change_image(state: dict[str, Any], args: list[str]) -> None:
    match args:
        case ["image", "inspect", "--format", template, name]:
            by_id = {each["id"]: each for each in state["images"].values()}
            inspect(state["images"] | by_id, template, name)
        case ["image", "rm", name]:
            if any(each["name"] == name for each in state["containers"].values()):
                fail("conflict: unable to remove repository reference: container is using it")
            del state["images"][name]
        case ["build", *_]:
            build(state, args)
        case [("pull" | "push") as verb, name]:
            registry(verb, state, name)
        case _:
            fail(f"docker: unknown call {args}")


def change_container(state: dict[str, Any], args: list[str]) -> None:
    match args:
        case ["inspect", "--type", "container", "--format", template, name]:
            inspect(state["containers"], template, name)
        case ["rm", "-f", name]:
            state["containers"].pop(name, None)
        case ["start", name]:
            state["containers"][name]["state"] = "running"
        case ["run", *_]:
            run_container(state, args)
        case _:
            change_image(state, args)


def main(args: list[str]) -> None:
    state = load(STATE, {"images": {}, "containers": {}, "calls": [], "login": True})
    state["calls"].append(args)
    if args[0] == "login":
        login(args)
    elif args[0] == "logout":
        os.unlink(login_file(args[-1]))
    else:
        change_container(state, args)
    save(STATE, state)


if __name__ == "__main__":
    main(sys.argv[1:])
