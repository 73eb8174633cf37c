"""sudo's policy and environment (sudo 1.9); the running of the command is the host's."""

from __future__ import annotations

import re
from pathlib import Path

from components.core.record import record
from lab.hosts.namespace import INNER_PATH
from lab.hosts.tools.call import ToolResult
from lab.hosts.tools.options import split_options

KEPT = ("TERM", "LANG", "LC_ALL", "INVOCATION_ID")
USAGE = "usage: sudo -h | -K | -k | -V\nusage: sudo [-ABknS] [-u user] [VAR=value] command\n"


@record
class SudoRequest:
    """One sudo command line."""

    command: tuple[str, ...]
    user: str
    variables: dict[str, str]
    interactive: bool
    login: bool = False
    shell: bool = False


FLAGS = frozenset({"-n", "-H", "-i", "-s", "-k", "-K", "-v", "-S", "-E", "--preserve-env",
                   "--non-interactive", "--set-home", "--login"})  # fmt: skip


def parse_sudo(argv: tuple[str, ...]) -> SudoRequest | ToolResult:
    """Read the command line; a ToolResult ends the call."""
    options = split_options(_single_letters(argv), ("-u", "--user"), FLAGS, mixed=False)
    if isinstance(options, str):
        return ToolResult(1, err=f"sudo: invalid option -- '{options.lstrip('-')}'\n{USAGE}")
    if options.has("-E", "--preserve-env"):
        text = "sudo: sorry, you are not allowed to preserve the environment\n"
        return ToolResult(1, err=text)
    words = list(options.words)
    variables: dict[str, str] = {}
    while words and re.match(r"[A-Za-z_]\w*=", words[0]):
        key, _, value = words.pop(0).partition("=")
        variables[key] = value
    login, shell = options.has("-i", "--login"), options.has("-s")
    if not words and options.has("-k", "-K", "-v"):
        words = ["true"]
    if not words and not login and not shell:
        return ToolResult(1, err=USAGE)
    interactive = not options.has("-n", "--non-interactive")
    user = options.last("-u", "--user", default="root")
    return SudoRequest(tuple(words), user, variables, interactive, login, shell)


def _single_letters(argv: tuple[str, ...]) -> list[str]:
    """Write joined flags before the command apart: `-nH` becomes `-n -H`."""
    words: list[str] = []
    for index, word in enumerate(argv):
        if not word.startswith("-"):
            return [*words, *argv[index:]]
        joined = re.fullmatch(r"-[nHiskKvSE]{2,}", word)
        words += [f"-{letter}" for letter in word[1:]] if joined else [word]
        if word in ("-u", "--user", "--"):
            return [*words, *argv[index + 1 :]]
    return words


@record
class Rule:
    """What one sudoers line lets a user do."""

    nopasswd: bool
    setenv: bool
    commands: tuple[str, ...]


def load_rules(root: Path, user: str, groups: frozenset[str]) -> list[Rule]:
    """The lines of /etc/sudoers and /etc/sudoers.d that are for this user; the last one wins."""
    rules = [Rule(nopasswd=True, setenv=True, commands=("ALL",))] if user == "root" else []
    files = [root / "etc/sudoers", *sorted((root / "etc/sudoers.d").glob("*"))]
    for path in files:
        # sudo passes over names with a dot or a trailing ~ (sudoers(5), includedir).
        if not path.is_file() or "." in path.name or path.name.endswith("~"):
            continue
        for line in path.read_text().splitlines():
            rule = _parse_rule(line, user, groups)
            if rule is not None:
                rules.append(rule)
    return rules


def _parse_rule(line: str, user: str, groups: frozenset[str]) -> Rule | None:
    match = re.match(r"\s*([^#\s]\S*)\s+\S+?\s*=\s*(?:\([^)]*\))?\s*((?:[A-Z]+:\s*)*)(.+)", line)
    if match is None or line.lstrip().startswith("Defaults"):
        return None
    who, tags, commands = match[1], match[2], match[3]
    if who not in (user, "ALL") and who.removeprefix("%") not in groups:
        return None
    if who.startswith("%") != (who not in (user, "ALL")):
        return None
    listed = tuple(command.strip() for command in commands.split(","))
    return Rule("NOPASSWD:" in tags, "SETENV:" in tags or listed == ("ALL",), listed)


def judge_sudo(rules: list[Rule], request: SudoRequest, path: str) -> ToolResult | None:
    """Sudo's refusal, or None when the command may run.

    Args:
        rules: The user's rules.
        request: What is asked.
        path: Absolute path of the command.
    """
    text = " ".join((path, *request.command[1:]))
    allowed = [r for r in rules if any(_matches(c, path, text) for c in r.commands)]
    if not allowed or not allowed[-1].nopasswd:
        if request.interactive:
            error = (
                "sudo: a terminal is required to read the password; either use the -S option to "
                "read from standard input or configure an askpass helper\n"
                "sudo: a password is required\n"
            )
            return ToolResult(1, err=error)
        return ToolResult(1, err="sudo: a password is required\n")
    if request.variables and not allowed[-1].setenv:
        names = ", ".join(request.variables)
        error = (
            "sudo: sorry, you are not allowed to set the following environment variables: "
            f"{names}\n"
        )
        return ToolResult(1, err=error)
    return None


def _matches(listed: str, path: str, text: str) -> bool:
    return listed in ("ALL", path, text)


def sudo_environment(
    request: SudoRequest, caller: tuple[str, int, int], home: str, env: dict[str, str]
) -> dict[str, str]:
    """The environment sudo gives a command: reset, with secure_path."""
    name, uid, gid = caller
    kept = {key: env[key] for key in KEPT if key in env}
    return {
        **kept,
        "PATH": INNER_PATH,
        "HOME": home,
        "USER": request.user,
        "LOGNAME": request.user,
        "SHELL": "/bin/bash",
        "SUDO_USER": name,
        "SUDO_UID": str(uid),
        "SUDO_GID": str(gid),
        "SUDO_COMMAND": " ".join(request.command),
        **request.variables,
    }
