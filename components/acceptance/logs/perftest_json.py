"""Reads the JSON that perftest writes with `--out_json`: fields and cells, as its text has them.

Up to 23.10 neither keys nor texts had quotes and each part ended with a comma; 24.01 made it JSON
but for `sl:` of a test with QoS. It has only one size, because the tool writes the whole file again
for each size. Its unit is not shown: MB/sec, or Gb/sec with `--report_gbits`.
"""

from __future__ import annotations

import json
import re
from typing import Final, NamedTuple, cast

from components.acceptance.logs.lines import read_json
from components.acceptance.logs.log_model import ParseProblem

_FIELDS: Final = {
    "test": "test",
    "Device": "device",
    "Mtu": "mtu",
    "Link_type": "link",
    "Transport_type": "transport",
    "Connection_type": "connection",
    "GID_index": "gid",
    "rdma_cm_QPs": "cm",
}
_CELLS: Final = {
    "MsgSize": "bytes",
    "n_iterations": "iterations",
    "BW_peak": "peak",
    "BW_average": "average",
    "MsgRate": "MsgRate",
    "CPU_util": "CPU_Util",
    "t_min": "t_min",
    "t_max": "t_max",
    "t_typical": "t_typical",
    "t_avg": "t_avg",
    "t_stdev": "t_stdev",
    "percentile_99": "99",
    "percentile_99.9": "99.9",
    "tps_average": "tps",
}
_NUMBERS: Final = frozenset({"mtu", "gid"})
_WORD = re.compile(r"[\w.-]{1,80}")
_DIGITS = re.compile(r"\d{1,9}", re.ASCII)
_UNQUOTED = re.compile(
    r"^[ \t]*(\w[\w. ]{0,60}?) ?: ?(?:(\{)|\"?([^\"\n]*?)\"?(,?))$", re.MULTILINE
)
_LAST_COMMA = re.compile(r",(\s*(?:\}|$))")


class Document(NamedTuple):
    """The output of one run; numbers as they are printed."""

    fields: dict[str, str]
    cells: dict[str, str]


def parse_perftest_json(text: str) -> list[Document] | ParseProblem:
    """The documents of a text, one for each run; a cut or foreign one is a problem."""
    found = read_json(text, "perftest", _document, str)
    if isinstance(found, ParseProblem):
        quoted = _LAST_COMMA.sub(r"\1", _UNQUOTED.sub(_quoted, text))
        return read_json(quoted, "perftest", _document, str)
    return found


def _quoted(line: re.Match[str]) -> str:
    key = json.dumps(line[1])
    return f"{key}: {{" if line[2] else f"{key}: {json.dumps(line[3])}{line[4]}"


def _document(value: object) -> Document:
    info, results = (_part(value, name) for name in ("test_info", "results"))
    fields = {name: info[key] for key, name in _FIELDS.items() if key in info}
    for name, shown in fields.items():
        if not (_DIGITS if name in _NUMBERS else _WORD).fullmatch(shown):
            raise ValueError(f"{name}: {shown[:40]!r} is not a valid value")
    if "MsgSize" not in results:
        raise ValueError("results: no MsgSize; run without --output")
    return Document(fields, {_CELLS[key]: text for key, text in results.items() if key in _CELLS})


def _part(value: object, name: str) -> dict[str, str]:
    """The texts and numbers of one part of a document."""
    part = cast("dict[str, object]", value).get(name) if isinstance(value, dict) else None
    if not isinstance(part, dict):
        raise ValueError(f"no {name}")  # noqa: TRY004 - the fault of a document
    found = cast("dict[str, object]", part)
    return {key: each for key, each in found.items() if isinstance(each, str)}
