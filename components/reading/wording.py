"""The model's refusals in the user's words: the actual value, the YAML path, and the fix."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Final, cast

from pydantic import BaseModel

from components.catalogue.switches.systems import FOREIGN_SYSTEMS
from components.core.plain_text import one_line
from components.core.problem import Finding, Place, SpecPath, render_path
from components.model.texts import REFUSED
from components.model.units import SecretRef
from components.reading.members import (
    NO_KIND,
    Owner,
    docs_of,
    models_at,
    owner_of,
    pattern_of,
    quoted_words,
)
from components.reading.patterns import (
    PATTERNS,
    describe_pattern,
    mend_text,
    no_source,
    offer_number,
    open_secret,
    secret_path,
)

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_WORD: Final = re.compile(r"[^a-z0-9]+")
"""Separates the words of a name."""
_LOGIN: Final = re.compile(r"//[^/@\s]+@")
"""A user and password in an address."""
_DIGIT: Final = re.compile(r"[0-9]")
_PADDING: Final = re.compile(r"(?<!\d)0+(?=\d)")
_KINDS: Final = {
    "string_type": "a text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "tuple_type": "a list",
    "dict_type": "a mapping of keys to values",
    "model_type": "a mapping of keys to values",
    "model_attributes_type": "a mapping of keys to values",
    "ip_v4_network_error": "an IPv4 network such as 10.10.111.0/24",
    "ip_v4_address": "an IPv4 address such as 10.10.111.1",
}
_BOUNDS: Final = {
    "greater_than": ("gt", "greater than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
    "multiple_of": ("multiple_of", "a multiple of"),
}


def show_value(value: object) -> str:
    """Write a value as YAML would show it, on one short line."""
    if value is None:
        return "(empty)"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, BaseModel | dict):
        return "{…}"
    if isinstance(value, list | tuple):
        return "[…]"
    text = _LOGIN.sub("//(not shown)@", " ".join(str(value).split()))
    return one_line(text if len(text) <= 60 else f"{text[:57]}...")  # noqa: PLR2004 - one line of a report


def did_you_mean(word: str, known: Sequence[str]) -> str:
    """Suggest the nearest known word, as the end of a sentence; empty without one."""
    meant = probably_meant(word, known)
    return f" Did you mean `{meant}`?" if meant else ""


def probably_meant(word: str, known: Sequence[str]) -> str:
    """Return the nearest known word; empty without one."""
    by_lower = {each.lower(): each for each in reversed(known)}
    typed = word.lower()
    parts = _WORD.split(typed)
    near = [by_lower[each] for each in by_lower if each in parts or sorted(each) == sorted(typed)]
    near = near or [each for each in known if _unpadded(each) == _unpadded(word)]
    near = near or [
        *difflib.get_close_matches(word, known, n=3, cutoff=0.6),
        *(by_lower[each] for each in difflib.get_close_matches(typed, list(by_lower), 1, 0.6)),
    ]
    longer = [each for each in known if each.lower().startswith(f"{typed}_")]
    near = near or (longer if len(longer) == 1 else [])  # a key without its unit
    # If the nearest word only differs in its number, suggest neither it nor a farther one.
    slip = bool(near) and not _other_number(near[0].lower(), typed)
    return near[0] if slip else ""


def _unpadded(name: str) -> str:
    """`gpu01` and `gpu1` are the same name but for the width of its number."""
    return _PADDING.sub("", name.lower())


def _other_number(one: str, other: str) -> bool:
    """Whether two names differ only in digits: ConnectX-4 is not a misspelling of ConnectX-8."""
    return one != other and _DIGIT.sub("0", one) == _DIGIT.sub("0", other)


def word_error(detail: ErrorDetails, model: type[BaseModel]) -> tuple[SpecPath, Finding]:
    """Turn one item of pydantic's `ValidationError.errors()` into a problem."""
    path, owner = owner_of(detail, model)
    return path, _WORDINGS.get(detail["type"], _other)(path, detail, owner)


def is_refinement(detail: ErrorDetails) -> bool:
    """Whether a value has the right kind but breaks its limits or its form."""
    return detail["type"] in {REFUSED, "string_pattern_mismatch", *_BOUNDS}


def wrong_type(path: SpecPath, value: object, wanted: str) -> Finding:
    """Report that a value has the wrong kind."""
    kind = _kind_of(value)
    hint = " (without quotes)" if isinstance(value, str) and "number" in wanted else ""
    if wanted == "a text" and isinstance(value, int | float):
        hint = f', with quotes: "{show_value(value)}"'
        if isinstance(value, bool) and "sysctls" in path:
            wanted, hint = str(int(value)), ": the kernel wants the number"
    what = f"{render_path(path)} is {kind}, and {wanted} is expected."
    fix = f"write {wanted}{hint}."
    return _problem("wrong-type", path, value, what, fix)


def _problem(rule: str, path: SpecPath, value: object, what: str, fix: str) -> Finding:
    return Finding(what, (Place(path, show_value(value)),), fix, rule=rule)


def _kind_of(value: object) -> str:
    match value:
        case None:
            return "empty"
        case bool():
            return f"the truth value {show_value(value)}"
        case int() | float():
            return f"the number {show_value(value)}"
        case str():
            return f'the text "{show_value(value)}"'
        case list() | tuple():
            return "a list"
        case _:
            return "a mapping"


def _missing(path: SpecPath, _detail: ErrorDetails, owner: Owner) -> Finding:
    doc = _doc_of(owner, str(path[-1]))
    what = f"{render_path(path[:-1])} lacks `{path[-1]}`, which it needs."
    fix = f"add `{path[-1]}:`{f' - {doc}' if doc else ''}."
    return Finding(rule="missing-key", what=what, where=(Place(path),), fix=fix)


def _unknown(path: SpecPath, detail: ErrorDetails, owner: Owner) -> Finding:
    if owner is SecretRef:
        return no_source(path)
    known = sorted(owner.model_fields) if owner else []
    hint = did_you_mean(str(path[-1]), known)
    listed = f"; the keys known here are {', '.join(known)}" if known else ""
    what = f"`{path[-1]}` is not a key of {render_path(path[:-1])}.{hint}"
    fix = "correct the spelling, or remove it." if hint else f"remove it{listed}."
    found = _problem("unknown-key", path, detail["input"], what, fix)
    return replace(found, wanted=probably_meant(str(path[-1]), known))


def _choice(path: SpecPath, detail: ErrorDetails, _owner: Owner) -> Finding:
    context = detail.get("ctx", {})
    choices = _choices(context)
    value = _tag(detail) if "tag" in context else detail["input"]
    if isinstance(value, int) and not isinstance(value, bool) and str(value) in choices:
        return wrong_type(path, value, "a text")
    if isinstance(value, str) and value in choices and value.isdigit():
        return wrong_type(path, value, "a number")
    is_system = path[:1] == ("switches",) and path[-1] == "os"
    way = _OTHER_SWITCHES if is_system else _WAYS.get(path, "")
    foreign = bool(way) and str(value).lower() in {*FOREIGN_SYSTEMS, "gke"}
    hint = did_you_mean(value, choices) if isinstance(value, str) and not foreign else ""
    what = (
        f"{render_path(path)} cannot be {show_value(value)}."
        f"{hint or (' No other system can be set.' if is_system else '')}"
    )
    fix = (
        f"choose one of: {', '.join(choices)}{way}."
        if len(choices) > 1
        else f"write {choices[0] if choices else 'another value'}; "
        "nothing else is supported here yet."
    )
    return _problem("unknown-choice", path, value, what, fix)


_OTHER_SWITCHES: Final = (
    "; with switches of another system write `switches: []`: `railyard plan SITE --stage fabric` "
    "then prints their required settings, and acceptance reports them as unproven"
)
_WAYS: Final[Mapping[SpecPath, str]] = {
    ("kubernetes", "distribution"): "; on another one leave it out, and write its kubelets' "
    "folders into kubernetes.cni as net_d and bin",
    ("kubernetes", "plane"): "; `existing` takes a cluster that another tool made",
}
"""Path to advice for a value that is not in its list."""


def _choices(context: Mapping[str, object]) -> list[str]:
    """The choices in pydantic's words: `'a', 'b' or 'c'`, or `1, 2 or 3`."""
    text = str(context.get("expected", context.get("expected_tags", "")))
    return quoted_words(text) or [each for each in re.split(r", | or ", text) if each]


def _tag(detail: ErrorDetails) -> object:
    keys = quoted_words(detail.get("ctx", {}).get("discriminator"))
    return cast("dict[str, object]", detail["input"]).get(keys[0]) if keys else None


def _no_kind(path: SpecPath, detail: ErrorDetails, owner: Owner) -> Finding:
    kinds: tuple[ErrorDetails, ...] = detail.get("ctx", {}).get("kinds", ())
    choices = [word for kind in kinds for word in _choices(kind.get("ctx", {}))]
    others = [_KINDS[kind["type"]] for kind in kinds if kind["type"] in _KINDS]
    value, doc = detail["input"], _doc_of(owner, str(path[-1]))
    what = (
        f"{render_path(path)} cannot be {show_value(value)}."
        f"{did_you_mean(value, choices) if isinstance(value, str) else ''}"
    )
    fix = f"write {' or '.join([*choices, *others])}{f' - {doc}' if doc else ''}."
    return _problem("unknown-choice", path, value, what, fix)


def _bound(path: SpecPath, detail: ErrorDetails, _owner: Owner) -> Finding:
    key, words = _BOUNDS[detail["type"]]
    limit = detail.get("ctx", {}).get(key)
    what = f"{render_path(path)} is {show_value(detail['input'])}, and it must be {words} {limit}."
    fix = f"write a number {words} {limit}."
    return _problem("out-of-range", path, detail["input"], what, fix)


def _pattern(path: SpecPath, detail: ErrorDetails, _owner: Owner) -> Finding:
    pattern, value = str(detail.get("ctx", {}).get("pattern", "")), str(detail["input"])
    wanted, better = describe_pattern(pattern), mend_text(pattern, value)
    what = f'{render_path(path)} is "{show_value(value)}", which is not {wanted}.'
    fix = f"write {better or wanted}."
    return _problem("malformed", path, value, what, fix)


def mended(detail: ErrorDetails) -> str | None:
    """Correct a refused text as the user probably meant it, if possible."""
    value, context = detail["input"], detail.get("ctx", {})
    if not isinstance(value, str):
        return None
    if detail["type"] == "string_pattern_mismatch":
        return mend_text(str(context.get("pattern", "")), value) or None
    if detail["type"] == "value_error" and value.count("/") == 1:
        return str(_enclosing(value) or "") or None
    return None


def _enclosing(text: str) -> IPv4Network | None:
    try:
        return IPv4Network(text, strict=False)
    except ValueError:
        return None


_LONGEST_REASON: Final = 300
"""Limit in characters for a library's explanation."""


def _refused(path: SpecPath, detail: ErrorDetails, _owner: Owner) -> Finding:
    value = detail["input"]
    reason = str(detail.get("ctx", {}).get("error", detail["msg"])).rstrip(".")
    if len(reason) > _LONGEST_REASON:  # the library's message contains the whole value
        reason = f"{reason[:_LONGEST_REASON]}…"
    what = f"{render_path(path)}: {reason}."
    fix = f"write {_mended(str(value), reason)}."
    return _problem("malformed", path, value, what, fix)


def _refused_in_words(path: SpecPath, detail: ErrorDetails, _owner: Owner) -> Finding:
    context, value = detail.get("ctx", {}), detail["input"]
    known = cast("Sequence[str]", context.get("known", ()))
    what = f"{render_path(path)}: {context.get('what')}."
    fix = f"{context.get('fix')}{did_you_mean(str(path[-1]), known) if known else ''}"
    return _problem("malformed", path, value, what, fix)


def _mended(value: str, reason: str) -> str:
    """Correct the value as the user probably meant it, or refer to the example in the reason."""
    better = next((mend(value) for words, mend in _REASONS.items() if words in reason), "")
    return better or "it in the form shown above"


def _as_port(text: str) -> str:
    port = re.search(r"[0-9]+/[0-9]+(/[0-9]+)?\s*$", text)
    return "/".join(str(int(part)) for part in port[0].split("/")) if port else ""


def _as_pci(text: str) -> str:
    short = re.fullmatch(r"[0-9a-fA-F]{2}:[01][0-9a-fA-F]\.[0-7]", text)
    return f"0000:{text.lower()}" if short else ""


_REASONS: Final[dict[str, Callable[[str], str]]] = {
    "is not a switch port": _as_port,
    "is not a PCI address": _as_pci,
    "has host bits set": lambda text: f"the network itself: {_enclosing(text)}",
    "is a port GUID, and": lambda _: "the name of the host whose hca_guids has it",
    "in place of a port GUID": lambda _: "what ibstat prints as Port GUID on the host",
    "YAML reads this port GUID": lambda _: "it in quotes, as ibstat prints it",
}
"""Words in the model's error to a correction of the value."""


def _other(path: SpecPath, detail: ErrorDetails, owner: Owner) -> Finding:
    if SecretRef in models_at(owner, path[-1:]):
        return secret_path(path, detail["input"]) or open_secret(path)
    value, wanted = detail["input"], _KINDS.get(detail["type"], "another value")
    key = next((str(item) for item in reversed(path) if isinstance(item, str)), "")
    pattern = pattern_of(owner, key)
    problem = wrong_type(path, value, wanted)
    if (models := models_at(owner, path[-1:])) and problem.fix.startswith("write a mapping"):
        keys = sorted({key for each in models for key in each.model_fields})
        return replace(problem, fix=f"write a mapping; its keys are {', '.join(keys)}.")
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if wanted != "a text" or not is_number or pattern not in PATTERNS:
        return problem
    # Another form of text would be refused next, and YAML has dropped digits of the number.
    return replace(problem, fix=offer_number(pattern, value))


def _length(path: SpecPath, detail: ErrorDetails, owner: Owner) -> Finding:
    context, key = detail.get("ctx", {}), str(path[-1])
    info = owner.model_fields.get(key) if owner else None
    limits = [
        getattr(each, "min_length", None) or getattr(each, "max_length", None)
        for each in (info.metadata if info else ())
    ]
    limit = context.get("min_length", context.get("max_length"))
    exact = limits.count(limit) > 1
    side = "" if exact else "at least " if "min_length" in context else "at most "
    count, doc = context.get("actual_length"), _doc_of(owner, key)
    what = f"{render_path(path)} has {count} entries, and {side}{limit} are expected."
    fix = f"write {side}{limit} entries{f' - {doc}' if doc else ''}."
    return _problem("out-of-range", path, detail["input"], what, fix)


def _too_long(path: SpecPath, detail: ErrorDetails, _owner: Owner) -> Finding:
    limit = detail.get("ctx", {}).get("max_length")
    what = (
        f"{render_path(path)} has {len(str(detail['input']))} characters, "
        f"and at most {limit} are expected."
    )
    fix = f"write a text of at most {limit} characters."
    return _problem("out-of-range", path, detail["input"], what, fix)


_WORDINGS: Final[dict[str, Callable[[SpecPath, ErrorDetails, Owner], Finding]]] = {
    "missing": _missing,
    "union_tag_not_found": _missing,
    "union_tag_invalid": _choice,
    "extra_forbidden": _unknown,
    "literal_error": _choice,
    NO_KIND: _no_kind,
    "string_pattern_mismatch": _pattern,
    "value_error": _refused,
    REFUSED: _refused_in_words,
    "string_too_long": _too_long,
    "too_short": _length,
    "too_long": _length,
    **dict.fromkeys(_BOUNDS, _bound),
}


def _doc_of(model: Owner, key: str) -> str:
    text = docs_of(model).get(key, "") if model else ""
    return " ".join(text.split()).rstrip(".")
