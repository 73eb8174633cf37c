"""How esxcli reads its command line, and how it prints a table.

A capture shows two of the error texts: `Error: Missing required parameter -r|--reason` and
`Error: Invalid option --device`. The other texts follow their form and are guesses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from components.core.record import record
from lab.hypervisors.esxi.stored import Refusal

FORMATTERS = ("csv",)


@record
class Option:
    """One option of an esxcli command."""

    short: str
    long: str
    kind: Literal["text", "flag", "bool", "number"] = "text"
    required: bool = False


@record
class Rows:
    """A table that a command answers with."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[str] = frozenset()
    """Columns that esxcli prints flush right: numbers and true/false."""


def usage(path: str) -> str:
    """The lines after an error."""
    return f"\n\nUsage: esxcli {path} [cmd options]\n"


def parse_options(path: str, options: Sequence[Option], argv: Sequence[str]) -> dict[str, str]:
    """Read the options after a command's words; the keys of the answer are long names.

    Raises:
        Refusal: An unknown option, a missing value or parameter, or a value of the wrong kind.
    """
    found: dict[str, str] = {}
    words = list(argv)
    while words:
        word = words.pop(0)
        option = _find(options, word)
        if option is None:
            shown = word.partition("=")[0]
            text = f"Invalid option {shown}" if word.startswith("-") else f"Invalid value {word}"
            raise Refusal(f"Error: {text}{usage(path)}")
        found[option.long] = _value(path, option, word, words)
    for option in options:
        if option.required and option.long not in found:
            name = f"-{option.short}|--{option.long}"
            raise Refusal(f"Error: Missing required parameter {name}{usage(path)}")
    return found


def _find(options: Sequence[Option], word: str) -> Option | None:
    name = word.partition("=")[0]
    return next((o for o in options if name == f"--{o.long}" or word == f"-{o.short}"), None)


def _value(path: str, option: Option, word: str, rest: list[str]) -> str:
    _, equals, text = word.partition("=")
    if option.kind == "flag":
        if equals:
            raise Refusal(f"Error: Invalid option {word}{usage(path)}")
        return "true"
    if not equals:
        if not rest:
            raise Refusal(f"Error: Missing value for option {word}{usage(path)}")
        text = rest.pop(0)
    if option.kind == "bool":
        text = {"1": "true", "0": "false"}.get(text, text.lower())
    wrong = (option.kind == "bool" and text not in {"true", "false"}) or (
        option.kind == "number" and not text.isdecimal()
    )
    if wrong:
        raise Refusal(f"Error: Invalid value {text} for option --{option.long}{usage(path)}")
    return text


def render(rows: Rows, formatter: str) -> str:
    """A table as text: two spaces between the columns and a line of dashes below the header.

    With `--formatter=csv` the columns are in alphabetical order, without spaces in their names,
    and every line ends with a comma.
    """
    if formatter == "csv":
        order = sorted(range(len(rows.columns)), key=lambda n: rows.columns[n])
        heads = tuple(name.replace(" ", "") for name in rows.columns)
        lines = [",".join(row[n] for n in order) + "," for row in (heads, *rows.rows)]
        return "".join(f"{line}\n" for line in lines)
    widths = [max(map(len, column)) for column in zip(rows.columns, *rows.rows, strict=True)]
    lines = [_pad(rows.columns, widths, frozenset()), "  ".join("-" * w for w in widths)]
    right = frozenset(n for n, name in enumerate(rows.columns) if name in rows.right)
    lines += [_pad(row, widths, right) for row in rows.rows]
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _pad(row: Sequence[str], widths: Sequence[int], right: frozenset[int]) -> str:
    cells = [
        text.rjust(width) if n in right else text.ljust(width)
        for n, (text, width) in enumerate(zip(row, widths, strict=True))
    ]
    return "  ".join(cells)


def fields(values: Mapping[str, str]) -> str:
    """Indented `Key: value` lines, as the `get` commands print."""
    return "".join(f"   {key}: {value}".rstrip() + "\n" for key, value in values.items())
