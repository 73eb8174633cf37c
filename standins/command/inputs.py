"""The inputs of `command:local:Command` and `command:remote:Command`, checked and parsed.

Names, defaults and secret marks follow pulumi-command 1.2.1 (sources.md#the-command-plugin).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from standins.values import Properties, Value, has_unknown, is_secret, is_unknown, reveal, seal

LOCAL: Final = "command:local:Command"
REMOTE: Final = "command:remote:Command"

LOGGING: Final = frozenset({"stdout", "stderr", "stdoutAndStderr", "none"})
CONNECTION_DEFAULTS: Final[dict[str, Value]] = {
    "user": "root",
    "port": 22.0,
    "dialErrorLimit": 10.0,
    "perDialTimeout": 15.0,
}
CONNECTION_SECRETS: Final = ("password", "privateKey", "privateKeyPassword")

_STR: Final = (str,)
_NUMBER: Final = (int, float)
_COMMON: Final[dict[str, tuple[type, ...]]] = {
    "create": _STR,
    "update": _STR,
    "delete": _STR,
    "stdin": _STR,
    "logging": _STR,
    "environment": (dict,),
    "addPreviousOutputInEnv": (bool,),
    "triggers": (list,),
}
FIELDS: Final[dict[str, dict[str, tuple[type, ...]]]] = {
    LOCAL: {
        **_COMMON,
        "interpreter": (list,),
        "dir": _STR,
        "assetPaths": (list,),
        "archivePaths": (list,),
    },
    REMOTE: {**_COMMON, "connection": (dict,)},
}
CONNECTION_FIELDS: Final[dict[str, tuple[type, ...]]] = {
    "host": _STR,
    "user": _STR,
    "password": _STR,
    "privateKey": _STR,
    "privateKeyPassword": _STR,
    "agentSocketPath": _STR,
    "hostKey": _STR,
    "port": _NUMBER,
    "dialErrorLimit": _NUMBER,
    "perDialTimeout": _NUMBER,
    "proxy": (dict,),
}


@dataclass(frozen=True, slots=True)
class Failure:
    """One property that cannot be accepted, and why."""

    property: str
    reason: str


@dataclass(frozen=True, slots=True)
class Connection:
    """Where and how to log in. Times in seconds; a limit of -1 dials for ever."""

    host: str
    port: int
    user: str
    password: str | None
    private_key: str | None
    private_key_password: str | None
    agent_socket_path: str | None
    host_key: str | None
    dial_error_limit: int
    per_dial_timeout_s: int
    proxy: Connection | None


@dataclass(frozen=True, slots=True)
class CommandInputs:
    """One command as the program wrote it, secrets opened. Never print it."""

    create: str | None
    update: str | None
    delete: str | None
    stdin: str
    environment: dict[str, str]
    log_stdout: bool
    log_stderr: bool
    add_previous_output: bool
    interpreter: tuple[str, ...]
    directory: str | None
    connection: Connection | None


def check_inputs(kind: str, news: Properties) -> tuple[Properties, tuple[Failure, ...]]:
    """Return the inputs with defaults filled in and secrets marked, and what is wrong."""
    inputs = {key: value for key, value in news.items() if not key.startswith("__")}
    failures = list(_check_fields("", inputs, FIELDS[kind]))
    logging = reveal(inputs.get("logging"))
    if isinstance(logging, str) and not is_unknown(logging) and logging not in LOGGING:
        failures.append(Failure("logging", f"must be one of {sorted(LOGGING)}, is {logging!r}"))
    if kind == REMOTE:
        if inputs.get("connection") is None:
            failures.append(Failure("connection", "Missing required field 'connection'"))
        else:
            failures += _check_connection("connection", inputs["connection"])
            inputs["connection"] = seal(_complete(inputs["connection"], failures=bool(failures)))
    return inputs, tuple(failures)


def parse_inputs(properties: Properties) -> CommandInputs:
    """Return known inputs as typed values; secrets are opened here and nowhere else."""
    plain = {key: reveal(value) for key, value in properties.items()}
    logging = plain.get("logging")
    previous = plain.get("addPreviousOutputInEnv")
    connection = plain.get("connection")
    return CommandInputs(
        create=_text(plain.get("create")),
        update=_text(plain.get("update")),
        delete=_text(plain.get("delete")),
        stdin=_text(plain.get("stdin")) or "",
        environment=_texts(plain.get("environment")),
        log_stdout=logging in {None, "stdout", "stdoutAndStderr"},
        log_stderr=logging in {None, "stderr", "stdoutAndStderr"},
        add_previous_output=previous is not False,
        interpreter=_interpreter(plain.get("interpreter")),
        directory=_text(plain.get("dir")),
        connection=_parse_connection(connection) if isinstance(connection, dict) else None,
    )


def _check_fields(
    prefix: str, properties: Properties, fields: dict[str, tuple[type, ...]]
) -> list[Failure]:
    failures: list[Failure] = []
    for key, wrapped in properties.items():
        path = f"{prefix}{key}"
        value = reveal(wrapped)
        if key not in fields:
            failures.append(Failure(path, f"Unrecognized field '{key}'"))
        elif value is not None and not is_unknown(value):
            wanted = fields[key]
            is_wrong_bool = isinstance(value, bool) and bool not in wanted
            if is_wrong_bool or not isinstance(value, wanted):
                names = " or ".join(kind.__name__ for kind in wanted)
                failures.append(Failure(path, f"Field '{key}' must be a {names}"))
    return failures


def _check_connection(path: str, wrapped: Value) -> list[Failure]:
    value = wrapped["value"] if isinstance(wrapped, dict) and is_secret(wrapped) else wrapped
    if not isinstance(value, dict):
        return []
    failures = _check_fields(f"{path}.", value, CONNECTION_FIELDS)
    if value.get("host") is None:
        failures.append(Failure(f"{path}.host", "Missing required field 'host'"))
    proxy = value.get("proxy")
    if path == "connection" and proxy is not None:
        failures += _check_connection("connection.proxy", proxy)
    return failures


def _complete(wrapped: Value, *, failures: bool) -> Value:
    """Fill in the defaults of a connection and mark its keys and passwords as secret."""
    value = wrapped["value"] if isinstance(wrapped, dict) and is_secret(wrapped) else wrapped
    if not isinstance(value, dict):
        return value
    done: Properties = {key: item for key, item in value.items() if item is not None}
    if not failures:
        done = {**CONNECTION_DEFAULTS, **done}
    for key in CONNECTION_SECRETS:
        if key in done:
            done[key] = seal(done[key])
    if "proxy" in done:
        done["proxy"] = _complete(done["proxy"], failures=failures)
    return done


def _parse_connection(value: dict[str, Value]) -> Connection:
    settings = {**CONNECTION_DEFAULTS, **{k: v for k, v in value.items() if v is not None}}
    proxy = settings.get("proxy")
    return Connection(
        host=_text(settings.get("host")) or "",
        port=_number(settings["port"]),
        user=_text(settings["user"]) or "root",
        password=_text(settings.get("password")),
        private_key=_text(settings.get("privateKey")),
        private_key_password=_text(settings.get("privateKeyPassword")),
        agent_socket_path=_text(settings.get("agentSocketPath")),
        host_key=_text(settings.get("hostKey")),
        dial_error_limit=_number(settings["dialErrorLimit"]),
        per_dial_timeout_s=_number(settings["perDialTimeout"]),
        proxy=_parse_connection(proxy) if isinstance(proxy, dict) else None,
    )


def _text(value: Value) -> str | None:
    if isinstance(value, str) and not has_unknown(value):
        return value
    return None


def _number(value: Value) -> int:
    return int(value) if isinstance(value, (int, float)) else 0


def _texts(value: Value) -> dict[str, str]:
    if not isinstance(value, dict):
        return {}
    return {key: item for key, item in value.items() if isinstance(item, str)}


def _interpreter(value: Value) -> tuple[str, ...]:
    if not isinstance(value, list) or not value:
        return ("/bin/sh", "-c")
    return tuple(str(item) for item in value)
