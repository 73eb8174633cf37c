"""The kernel of the hosts: settings by name, huge pages, CPU, PCI, RDMA namespaces, routes."""

import re
from typing import Annotated, Any, Final, Literal, cast

from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError, WithJsonSchema
from pydantic_core import InitErrorDetails, PydanticCustomError

from components.core.templates import typed_table
from components.model.texts import refuse
from components.model.units import Frozen

SYSCTL_VALUE: Final = r"^[A-Za-z0-9_:/,+-][A-Za-z0-9 ._:/,+-]*$"
_WRITTEN: Final = r"^[ \t]*[A-Za-z0-9_:/,+-][A-Za-z0-9 \t._:/,+-]*\s*$"
"""The same before runs of blanks became one."""
_AREAS: Final = ("abi", "crypto", "debug", "dev", "fs", "kernel", "net", "sunrpc", "user", "vm")
"""The folders of /proc/sys (kernel documentation, admin-guide/sysctl)."""
_NAME: Final = rf"^({'|'.join(_AREAS)})\.[A-Za-z0-9_-]+([./][A-Za-z0-9_-]+)*$"
KNOWN_SETTINGS: Final = typed_table(tuple[str, ...], __file__, "known_settings")
"""Settings in guides for such clusters: a name that nearly equals one of them is a misspelling."""
_OWNED: Final = typed_table(dict[str, str], __file__, "owned")
_NO_NUMBERS: Final = typed_table(frozenset[str], __file__, "no_numbers")
_DIGITS: Final = re.compile(r"-?(0[xX][0-9A-Fa-f]+|[0-9]+)")
_UNIT: Final = re.compile(r"([0-9]+)([KMGTkmgt])i?[Bb]?")
_SHIFTS: Final = {"k": 10, "m": 20, "g": 30, "t": 40}
_PORT_RANGE: Final = "net.ipv4.ip_local_port_range"
_NOT_DECIMAL: Final = re.compile(r"-?0[0-9xX]")
_NUMBER: Final = rf"({_DIGITS.pattern}|{_UNIT.pattern})"
_UNREAD: Final = rf"(-?0[0-9xX]\S*|{_UNIT.pattern})"
_DECIMAL: Final = rf"(?!(?=\s*({_NUMBER}\s+)*{_NUMBER}\s*$)\s*(.*\s)?{_UNREAD}(\s|$))"
"""Before a text: rules out a list of numbers of which one would read back in another form."""
SysctlValue = Annotated[
    str,
    BeforeValidator(lambda value: str(value) if type(value) is int else value),
    BeforeValidator(  # several numbers are one text, as in `/proc/sys`
        lambda value: re.sub(r"[ \t]+", " ", value.strip()) if isinstance(value, str) else value
    ),
    Field(pattern=SYSCTL_VALUE),
]
"""Value of a kernel setting; the hosts' scripts accept these characters."""
_VALUES: Final[TypeAdapter[str]] = TypeAdapter(SysctlValue)
_TEXT: Final[dict[str, object]] = {"type": "string", "pattern": _WRITTEN}
_WHOLE: Final[dict[str, object]] = {"type": "integer"}
Pages = Annotated[int, Field(ge=0, le=9_999_999)]
"""Number of huge pages; the hosts' scripts accept this many at most, 19 TiB in 2 MiB pages."""


def _flaw_of_number(name: str, value: str) -> PydanticCustomError | None:
    """Report a number that the kernel refuses or prints in another form."""
    words = value.split()
    if (plain := _in_kernel_form(name, words)) != words:
        meant = "" if name == _PORT_RANGE else ", if it counts bytes"
        return refuse(f"no kernel takes {value} for {name}", f"write {' '.join(plain)}{meant}.")
    are_numbers = name not in _NO_NUMBERS and all(map(_DIGITS.fullmatch, words))
    if not are_numbers or not any(map(_NOT_DECIMAL.match, words)):
        return None
    read = " ".join(_as_kernel(word) for word in words)
    decimal = " ".join(re.sub(r"^(-?)0+(?=[0-9])", r"\1", word) for word in words)
    same = "x" in decimal.lower() or decimal == read
    return refuse(
        f"{name} = {value} would never read back: the kernel takes a leading 0 for octal "
        "and 0x for hexadecimal, and shows decimal numbers",
        f"write {read}{'' if same else f', or {decimal} if that is meant'}.",
    )


def _in_kernel_form(name: str, words: list[str]) -> list[str]:
    """The numbers without units, the two ends of a range as two words."""
    if name in _NO_NUMBERS:
        return words
    if name == _PORT_RANGE:
        return " ".join(words).replace("-", " ").split()
    if not all(_DIGITS.fullmatch(word) or _UNIT.fullmatch(word) for word in words):
        return words
    return [
        str(int(unit[1]) << _SHIFTS[unit[2].lower()]) if (unit := _UNIT.fullmatch(word)) else word
        for word in words
    ]


def _as_kernel(word: str) -> str:
    """Write a number as the kernel prints it; drop leading zeros that it cannot read."""
    try:
        return str(int(word, 8) if re.fullmatch(r"-?0[0-9]+", word) else int(word, 0))
    except ValueError:
        return str(int(word))


def _settings(value: object) -> object:
    """Judge name and value of each entry, all at once."""
    written = cast("dict[Any, object]", value) if isinstance(value, dict) else {}
    found: list[InitErrorDetails] = []
    for name in [name for name in written if isinstance(name, str)]:
        loc, own = (name,), written[name]
        try:
            text = _VALUES.validate_python(own)
        except ValidationError as error:
            parts = [(part["type"], part.get("ctx", {})) for part in error.errors()]
            found += [InitErrorDetails(type=t, loc=loc, input=own, ctx=ctx) for t, ctx in parts]
            continue
        if name in _OWNED:
            flaw = refuse(f"{name} is not set through sysctls", f"{_OWNED[name]}; remove it here.")
        elif not re.fullmatch(_NAME, name):
            fix = "write it as sysctl -a prints it, for example net.core.rmem_max."
            flaw = refuse(f'no kernel has a setting "{name}"', fix, KNOWN_SETTINGS)
        else:
            flaw = _flaw_of_number(name, text)
        found += [InitErrorDetails(type=flaw, loc=loc, input=own)] if flaw else []
    if found:
        raise ValidationError.from_exception_data("sysctls", found)
    return cast("object", value)


Sysctls = Annotated[
    dict[str, SysctlValue],
    BeforeValidator(_settings),
    WithJsonSchema(
        {
            "type": "object",
            "propertyNames": {
                "pattern": rf"^(?!({'|'.join(map(re.escape, _OWNED))})$){_NAME.removeprefix('^')}"
            },
            "properties": {
                **{name: {"anyOf": [_WHOLE, _TEXT]} for name in sorted(_NO_NUMBERS)},
                _PORT_RANGE: {"type": "string", "pattern": r"^[ \t]*[0-9]+[ \t]+[0-9]+\s*$"},
            },
            "additionalProperties": {
                "anyOf": [_WHOLE, {"type": "string", "pattern": rf"^{_DECIMAL}{_WRITTEN[1:]}"}]
            },
        }
    ),
]
"""Kernel settings by name. A number is written as the kernel shows it, in decimal: it reads 010 as
octal and 0x10 as hexadecimal (`strtoul` with base 0), and takes no units."""


class KernelSettings(Frozen):
    """Settings of a host's kernel. Every changed value is recorded for undo."""

    sysctls: Sysctls = Field(default_factory=dict)
    """Kernel settings by name, as `sysctl -a` prints it: `net.core.rmem_max: 268435456`.

    They are set at each boot by `railyard-nics.service`, after `/etc/sysctl.d`.
    """
    hugepages_2mib: Pages | None = None
    """Huge pages of 2 MiB in all; the kernel spreads them over the NUMA nodes. Default: as is."""
    hugepages_1gib: Pages | None = None
    """Huge pages of 1 GiB in all. Default: as is."""
    hugepages_2mib_per_node: tuple[Pages, ...] = ()
    """Huge pages of 2 MiB on each NUMA node, node 0 first; in place of the total."""
    hugepages_1gib_per_node: tuple[Pages, ...] = ()
    """Huge pages of 1 GiB on each NUMA node, node 0 first; in place of the total."""
    cpu_governor: (
        Literal["performance", "powersave", "schedutil", "ondemand", "conservative"] | None
    ) = None
    """Frequency governor of all processors. Default: as is. Latency tests want `performance`."""
    numa_balancing: bool | None = None
    """Whether the kernel moves pages between NUMA nodes automatically. Default: as is.

    A move delays jobs with pinned pages, which never need it.
    """
    acs: Literal["auto", "off", "keep"] = "auto"
    """PCIe access control on the bridges between a GPU and an RDMA card.

    `auto` is `off` on bare metal hosts with both, unless virtual machines use a card's VFs
    (`autoprobe: false`), else `keep`. With ACS GPUDirect RDMA is slow, or hangs.
    """
    iommu: Literal["pt", "off", "keep"] = "keep"
    """The IOMMU by the kernel's command line; needs a reboot. `pt` keeps translation for virtual
    machines only."""
    rdma_netns: Literal["shared", "exclusive", "keep"] = "keep"
    """Whether every network namespace sees all RDMA devices (`shared`, the kernel's default), or
    only the one with their network device (`exclusive`, with the RDMA CNI plugin)."""
    source_routing: Literal["auto", "off"] = "auto"
    """Routes by source address for cards with addresses.

    `auto` adds a table and a rule for each such card if the host has several or if a rail has a
    `gateway`, and lets ARP answer only for the card's own address.
    """
