"""Free texts of the site file, of bounded length; and many names as one short text.

A line break in a value would start a new line in a host's state, a report or a script. A control
character moves a terminal's cursor, and a direction mark makes another text appear than the real
one (Unicode UTR 36, 2.11). Specific fields have narrower types: they follow the system that would
otherwise refuse the value in the middle of an update.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, Any, Final, TypeAlias, TypeVar

from pydantic import AfterValidator, StringConstraints, WithJsonSchema
from pydantic_core import PydanticCustomError

_Value = TypeVar("_Value")
_ACTS: Final = r"\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
"""The characters that `components/core/plain_text.py` shows as escapes, and tab and newline."""
RULE_NAME: Final = r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$"
ANY_LINE: Final = rf"^[^{_ACTS}]*$"
LINE: Final = rf"^[ \t]*[^{_ACTS}]*[^\s{_ACTS}][^{_ACTS}]*\s*$"
MODEL_NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9 ._()/+:-]*$"
URL_SIGNS: Final = "A-Za-z0-9._~:/?#@&+,=%-"
"""Characters of RFC 3986 for an address, without those that end a word in a shell."""
NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"
PLUGGED: Final = r"^[A-Za-z0-9][A-Za-z0-9 ._/:,()+-]*$"
LOCAL_PATH: Final = r"^[A-Za-z0-9._~/][A-Za-z0-9._~/+@=, -]*$"
CHART: Final = r"^(oci://)?[A-Za-z0-9._~/][A-Za-z0-9._~/:+@-]*$"
REGISTRY_USER: Final = r"^[A-Za-z0-9$_][A-Za-z0-9$_.+@=~/-]*$"
_SEGMENT: Final = r"/\.{0,2}[A-Za-z0-9_+-][A-Za-z0-9._+-]*"
"""One segment of a path, except `.` and `..`."""
ABSOLUTE_PATH: Final = rf"^({_SEGMENT})+$"
EXPORT: Final = rf"^(/|({_SEGMENT})+/?)$"
_SUBDOMAIN: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
LABEL_VALUE: Final = r"^([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?$"
QUALIFIED_NAME: Final = rf"^({_SUBDOMAIN}/)?[A-Za-z0-9]([A-Za-z0-9_.-]{{0,61}}[A-Za-z0-9])?$"
HCA: Final = r"^[A-Za-z][A-Za-z0-9_.-]{0,62}$"
AnyLine = Annotated[str, StringConstraints(pattern=ANY_LINE, max_length=1000)]
"""Any text on one line, also an empty one: a word of a command, the value of a variable."""
LineText = Annotated[str, StringConstraints(pattern=LINE, max_length=300, strip_whitespace=True)]
"""A sentence for people: it fits on one line of each report."""
ModelName = Annotated[str, StringConstraints(pattern=MODEL_NAME, max_length=64)]
"""A vendor's name for a device: `ConnectX-6 Dx`, `NVIDIA H100 80GB HBM3`, `MSN2700-CS2F`."""
PlainName = Annotated[str, StringConstraints(pattern=NAME, max_length=63)]
"""A name of a project or an instance type, which needs no quoting as a segment of a URL."""
PluggedIn = Annotated[str, StringConstraints(pattern=PLUGGED, max_length=200)]
"""The other end of a port, in any words."""
LocalPath = Annotated[str, StringConstraints(pattern=LOCAL_PATH, max_length=1000)]
"""A file or folder of this machine; an option of a program cannot be written as one."""
ChartName = Annotated[str, StringConstraints(pattern=CHART, max_length=300)]
"""A chart's name, its path, or its `oci://` address."""
RegistryUser = Annotated[str, StringConstraints(pattern=REGISTRY_USER, max_length=255)]
"""A user of HTTP basic authentication, which splits at `:` (RFC 7617): NVIDIA's is `$oauthtoken`,
Harbor's robots have `$` and `+`."""
AbsolutePath = Annotated[str, StringConstraints(pattern=ABSOLUTE_PATH, max_length=1000)]
"""A file or folder from the root on, without `..` or anything that a shell would read.
Kubernetes refuses `..` in a `hostPath` (core/validation, validatePathNoBacksteps)."""
ExportPath = Annotated[str, StringConstraints(pattern=EXPORT, max_length=1000)]
"""An export of an NFS server; it can be the root."""
LabelValue = Annotated[str, StringConstraints(pattern=LABEL_VALUE)]
"""The value of a label or a taint (Kubernetes, IsValidLabelValue)."""
QualifiedName = Annotated[str, StringConstraints(pattern=QUALIFIED_NAME, max_length=317)]
"""The key of a label or a taint: a name of 63 characters after a DNS name of 253 and a slash
(Kubernetes, IsQualifiedName)."""
RuleName: TypeAlias = Annotated[str, StringConstraints(pattern=RULE_NAME)]
Waivers: TypeAlias = dict[RuleName, LineText]
"""Rules that a site waives, each with the reason."""
HcaName = Annotated[str, StringConstraints(pattern=HCA)]
"""An RDMA device of Linux: `mlx5_0`; the kernel has 63 characters for it (IB_DEVICE_NAME_MAX)."""
REFUSED: Final = "refused_value"
"""The type of such errors among pydantic's own."""
_NUMBERED: Final = re.compile(r"(.+?)([0-9]+)", re.ASCII | re.DOTALL)
_ITEM: Final = re.compile(r"([^,\[\]]+)(?:\[([0-9,-]+)\])?")


def refuse(what: str, fix: str, known: Sequence[str] = ()) -> PydanticCustomError:
    """Make the error of a type that can explain more than a pattern.

    `what` is one clause on the value, without a full stop: the report puts the path before it.
    `known` are right values, of which the report names the nearest one.
    """
    return PydanticCustomError(REFUSED, "{what}", {"what": what, "fix": fix, "known": list(known)})


def only(fits: Callable[[Any], object], what: str, fix: str) -> AfterValidator:
    """Refuse a value that does not fit; `{}` in the words becomes the value."""

    def check(value: _Value) -> _Value:
        if not fits(value):
            raise refuse(what.format(value), fix)
        return value

    return AfterValidator(check)


def form_schema(pattern: str, name: str = "") -> WithJsonSchema:
    """Publish a text with a pattern, and the name of its format if JSON Schema has one."""
    named = {"format": name} if name else {}
    return WithJsonSchema({"type": "string", **named, "pattern": pattern})


def fold_names(names: Iterable[str]) -> str:
    """Write names in their order; neighbours that count upwards become one range."""
    groups: list[tuple[str, list[list[str]]]] = []
    for name in names:
        match = _NUMBERED.fullmatch(name)
        head, number = match.groups() if match else (name, "")
        before, runs = groups[-1] if groups else ("", [["", ""]])
        last = runs[-1][1]
        if before != head or not number or not last:
            groups.append((head, [[number, number]]))
        elif f"{int(last) + 1:0{len(last)}}" == number:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    texts: list[str] = []
    for head, runs in groups:
        together = ",".join(first if first == last else f"{first}-{last}" for first, last in runs)
        is_one = len(runs) == 1 and "-" not in together
        texts.append(head + (together if is_one else f"[{together}]"))
    return ",".join(texts)


def unfold_names(text: str) -> tuple[str, ...]:
    """Read what `fold_names` wrote."""
    return tuple(
        head + number
        for head, numbers in _ITEM.findall(text)
        for number in (count_up(numbers) if numbers else [""])
    )


def count_up(bracket: str) -> Iterator[str]:
    """Count as a bracket says: `01-03,7` is 01, 02, 03, 7; digits keep their width."""
    for run in bracket.split(","):
        first, _, last = run.partition("-")
        for number in range(int(first), int(last or first) + 1):
            yield f"{number:0{len(first)}}"


def in_words(names: Sequence[str]) -> str:
    """Write a few names in their order: the first and the last one."""
    return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
