"""`pulumi` for the commands of a split site: stacks with a configuration and a state, in one file.

A test writes into `store.json` what previews show, and which command fails. An unknown command
fails, as the CLI's own does.
"""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

STORE = Path("store.json")


class FakeEngine:
    """The kept stacks, and the arguments and standard input of one command."""

    def __init__(
        self, store: dict[str, Any], arguments: Sequence[str], read: Callable[[], str]
    ) -> None:
        self.store, self.arguments, self.read = store, arguments, read
        self.stacks: dict[str, Any] = store["stacks"]
        self.words = [each for each in arguments if not each.startswith("-")]
        self.stack = self.option("--stack")

    def option(self, name: str) -> str:
        found = self.arguments.index(name) if name in self.arguments else -1
        return self.arguments[found + 1] if found >= 0 else ""

    def stack_ls(self) -> object:
        counts = {n: len(each["state"].get("resources") or []) for n, each in self.stacks.items()}
        return [{"name": name, "resourceCount": count} for name, count in counts.items()]

    def stack_export(self) -> object:
        return {"version": 3, "deployment": self.stacks[self.stack]["state"]}

    def stack_import(self) -> None:
        state = json.loads(self.read())
        self.stacks[self.stack]["state"] = state["deployment"]

    def stack_init(self) -> None:
        copied = self.stacks[self.option("--copy-config-from")]["config"]
        self.stacks[self.words[2]] = {"config": dict(copied), "state": {}}

    def stack_rm(self) -> None:
        del self.stacks[self.words[2]]

    def config_set(self) -> None:
        self.stacks[self.stack]["config"][self.words[2]] = {"value": self.words[3]}

    def config(self) -> object:
        return self.stacks[self.stack]["config"]

    def preview(self) -> object:
        changed = dict.fromkeys(self.store["changes"].get(self.stack, []), True)
        steps = [
            {"op": "update", "urn": f"x::{name}", "newState": {"custom": custom}}
            for name, custom in {**changed, "hosts": False}.items()
        ]
        return {"steps": steps}

    def up(self) -> None:
        if self.stack in self.store["fails"]:
            raise LookupError("update failed")

    def run(self) -> object:
        """Run the command.

        Raises:
            LookupError: It fails, or is unknown.
        """
        if self.stack and self.stack not in self.stacks:
            raise LookupError(f"no stack named '{self.stack}' found")
        group = self.words[0] == "stack" or self.words[:2] == ["config", "set"]
        name = "_".join(self.words[: 2 if group else 1])
        command: Callable[[], object] | None = getattr(self, name, None)
        if command is None:
            raise LookupError(f"unknown command {name}")
        return command()


def play(arguments: Sequence[str], read: Callable[[], str]) -> tuple[int, str, str]:
    """Run one command: its exit code, and what it writes to standard output and error."""
    store = json.loads(STORE.read_text())
    try:
        answer = FakeEngine(store, arguments, read).run()
    except LookupError as error:
        return 1, "", f"error: {error}\n"
    STORE.write_text(json.dumps(store))
    return 0, "" if answer is None else json.dumps(answer), ""


def main() -> None:
    code, out, err = play(sys.argv[1:], sys.stdin.read)
    sys.stdout.write(out)
    sys.stderr.write(err)
    sys.exit(code)


if __name__ == "__main__":
    main()
