"""Tables of click's commands; `sonic-cfggen` and `sonic-db-cli`, limited to CONFIG_DB.

Sources: sonic-buildimage, src/sonic-config-engine/sonic-cfggen; sonic-swss-common, sonic-db-cli.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from pydantic import JsonValue, TypeAdapter, ValidationError

from components.core.record import record
from lab.switches.sonic.config import Db, Table, row
from lab.switches.sonic.database import Database
from lab.switches.text import indented

if TYPE_CHECKING:
    from lab.switches.sonic.server import SonicSwitch

USAGE_STATUS: Final = 2
"""click's exit status for a refusal."""
_DATA: Final[TypeAdapter[dict[str, dict[str, dict[str, JsonValue]]]]] = TypeAdapter(
    dict[str, dict[str, dict[str, JsonValue]]]
)


class CommandError(Exception):
    """A command that fails, with its output and its exit status."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


def usage_error(command: str, arguments: str, message: str) -> CommandError:
    """A refusal as click prints it."""
    lines = f'Usage: {command} [OPTIONS] {arguments}\nTry "{command} -h" for help.\n'
    return CommandError(f"{lines}\nError: {message}", USAGE_STATUS)


def no_such_command(tool: str, words: str) -> CommandError:
    """A refusal of a word that click does not know."""
    return usage_error(tool, "COMMAND [ARGS]...", f'No such command "{words}".')


@record
class Commands:
    """One tool of click: patterns of its commands, their handlers, and the arguments in usage."""

    tool: str
    rows: tuple[tuple[str, Callable[..., Any], str], ...]

    def run(self, switch: SonicSwitch, words: Sequence[str], moved: Sequence[str] = ()) -> str:
        """Run one command, as `words` or with options `moved`; a CommandError if it is refused."""
        text = " ".join(moved or words)
        for pattern, handler, arguments in self.rows:
            found = re.fullmatch(pattern, text)
            if found is None:
                continue
            try:
                return handler(switch, *(group or "" for group in found.groups())) or ""
            except CommandError as error:
                if error.status != USAGE_STATUS or not arguments:
                    raise
                fixed = len(pattern.split(" (", maxsplit=1)[0].split())
                raise usage_error(" ".join(words[:fixed]), arguments, str(error)) from error
        switch.note_unmodelled(" ".join(words))
        raise no_such_command(self.tool, " ".join(words[1:]))


def parse_data(text: str) -> Db:
    """Read tables as JSON; a CommandError for other text, like the end of Python's traceback."""
    try:
        data = _DATA.validate_json(text)
    except ValidationError as error:
        what = error.errors()[0]["msg"]
        raise CommandError(f"json.decoder.JSONDecodeError: {what}", 1) from error
    return {
        table: {key: dict(map(_raw, fields.items())) for key, fields in rows.items()}
        for table, rows in data.items()
    }


def _raw(field: tuple[str, JsonValue]) -> tuple[str, str]:
    """A field in Redis' form: a list is `name@`, joined by commas (`typed_to_raw`)."""
    name, value = field
    is_list = isinstance(value, list)
    return (f"{name}@", ",".join(map(str, value))) if is_list else (name, str(value))


def _typed(field: tuple[str, str]) -> tuple[str, str | list[str]]:
    name, value = field
    return (name[:-1], value.split(",")) if name.endswith("@") else field


def merge_data(database: Database, data: Db) -> None:
    """`mod_config`: rows and fields that the data lacks stay."""
    for table, rows in data.items():
        for key, fields in rows.items():
            database.merge(table, key, fields)


def dump(db: Db) -> str:
    """`sonic-cfggen -d --print-data`: JSON with four spaces; a row without fields is `{}`."""
    return indented({name: _typed_table(rows) for name, rows in db.items()}, 4)


def _typed_table(rows: Table) -> dict[str, dict[str, str | list[str]]]:
    return {key: dict(map(_typed, fields.items())) for key, fields in rows.items()}


def run_cfggen(database: Database, words: list[str], given: str = "") -> str:
    """Run the forms that people and drivers use; a write is one transaction."""
    match words:
        case ["-d", "--print-data"]:
            return dump(database.db)
        case ["-d", "--var-json", table]:
            held = database.db.get(table)
            return "" if held is None else indented(_typed_table(held), 4)
        case ["-a", text, "--write-to-db" | "-w"]:
            merge_data(database, parse_data(text))
            return ""
        case ["-j", "/dev/stdin", "--write-to-db" | "-w"]:
            merge_data(database, parse_data(given))
            return ""
        case _:
            usage = "usage: sonic-cfggen [-h] [-m [MINIGRAPH] | -Y [YANG] | -M DEVICE_DESCRIPTION]"
            wrong = " ".join(words)
            raise CommandError(f"{usage}\nsonic-cfggen: error: unrecognized arguments: {wrong}", 2)


def run_db_cli(database: Database, words: list[str]) -> str:
    """Run Redis commands on CONFIG_DB, with the answers of redis-cli without a terminal.

    So a missing value is a blank line, and a list is one key a line (sonic-swss-common,
    sonic-db-cli/sonic-db-cli.cpp).
    """
    match words:
        case ["CONFIG_DB", "KEYS" | "keys", pattern]:
            return "\n".join(_keys(database, pattern)) + "\n"
        case ["CONFIG_DB", verb, key, *more]:
            table, _, name = key.partition("|")
            return _answer(database, verb.upper(), (table, name), more)
        case [other, *_] if other != "CONFIG_DB":
            raise CommandError(f"Invalid database name input : '{other}'", 1)
        case _:
            raise CommandError("(error) ERR wrong number of arguments", 1)


def _keys(database: Database, pattern: str) -> list[str]:
    """Keys that match a pattern with `*`."""
    keys = (f"{table}|{key}" for table, rows in database.db.items() for key in rows)
    fits = re.compile(re.escape(pattern).replace(r"\*", ".*"))
    return [key for key in keys if fits.fullmatch(key)]


def _answer(database: Database, verb: str, place: tuple[str, str], more: list[str]) -> str:
    table, name = place
    fields = row(database.db, table, name)
    match verb:
        case "DEL":
            keys = (key.partition("|") for key in (f"{table}|{name}", *more))
            return str(sum(database.delete(table, name) for table, _, name in keys))
        case "HDEL" if more:
            return str(sum(database.delete_field(table, name, field) for field in more))
        case "HGETALL":
            return str(fields)
        case "HGET" if more:
            return fields.get(more[0], "") + "\n"
        case "HSET" if more and len(more) % 2 == 0:
            new = len({*more[::2]} - {*fields})
            database.merge(table, name, dict(zip(more[::2], more[1::2], strict=True)))
            return str(new)
        case "EXISTS":
            return str(int(bool(fields)))
        case _:
            raise CommandError(f"(error) ERR unknown command or wrong arguments '{verb}'", 1)
