"""The model's refusals in the user's words: the actual value, the YAML path, and the fix."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic import BaseModel

from components.catalogue.switches.systems import FOREIGN_SYSTEMS
from components.core.plain_text import one_line
from components.core.problem import Finding, Place, SpecPath, render_path
from components.core.record import record, replace
from components.core.templates import typed_table
from components.model.texts import REFUSED
from components.model.units import SecretRef
from components.reading import members, patterns

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_WORD: Final = re.compile(r"[^a-z0-9]+")
"""Separates the words of a name."""
_LOGIN: Final = re.compile(r"//[^/@\s]+@")
"""A user and password in an address."""
_DIGIT: Final = re.compile(r"[0-9]")
_PADDING: Final = re.compile(r"(?<!\d)0+(?=\d)")
_KINDS: Final = typed_table(dict[str, str], __file__, "kinds")
_BOUNDS: Final = typed_table(dict[str, tuple[str, str]], __file__, "bounds")
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
_LONGEST_REASON: Final = 300
"""Limit in characters for a library's explanation."""
_SHORT_PCI: Final = r"[0-9a-fA-F]{2}:[01][0-9a-fA-F]\.[0-7]"


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
    meant = _probably_meant(word, known)
    return f" Did you mean `{meant}`?" if meant else ""


def _probably_meant(word: str, known: Sequence[str]) -> str:
    """Return the nearest known word; empty without one."""
    by_lower = {each.lower(): each for each in reversed(known)}
    typed = word.lower()
    parts = _WORD.split(typed)
    near = [by_lower[each] for each in by_lower if each in parts or sorted(each) == sorted(typed)]
    bare = _PADDING.sub("", typed)  # `gpu01` and `gpu1` differ in the width of their number
    near = near or [each for each in known if _PADDING.sub("", each.lower()) == bare]
    near = near or [
        *difflib.get_close_matches(word, known, n=3, cutoff=0.6),
        *(by_lower[each] for each in difflib.get_close_matches(typed, list(by_lower), 1, 0.6)),
    ]
    longer = [each for each in known if each.lower().startswith(f"{typed}_")]
    near = near or (longer if len(longer) == 1 else [])  # a key without its unit
    # If the nearest word only differs in its number, suggest neither it nor a farther one.
    # ConnectX-4 is not a misspelling of ConnectX-8.
    best = near[0].lower() if near else typed
    other = best != typed and _DIGIT.sub("0", best) == _DIGIT.sub("0", typed)
    return near[0] if near and not other else ""


@record
class _Refused:
    """One of pydantic's errors."""

    path: SpecPath
    detail: ErrorDetails
    owner: members.Owner

    @property
    def value(self) -> object:
        return self.detail["input"]

    @property
    def context(self) -> Mapping[str, Any]:
        return self.detail.get("ctx", {})

    @property
    def key(self) -> str:
        return str(self.path[-1])

    @property
    def doc(self) -> str:
        text = members.docs_of(self.owner).get(self.key, "") if self.owner else ""
        return f" - {' '.join(text.split()).rstrip('.')}" if text.split() else ""

    def found(self, rule: str, what: str, fix: str) -> Finding:
        """Report the value; `what` follows its path, and `fix` follows `write`."""
        what = f"{render_path(self.path)}{what}"
        return _problem(rule, self.path, self.value, what, f"write {fix}.")

    def missing(self) -> Finding:
        what = f"{render_path(self.path[:-1])} lacks `{self.key}`, which it needs."
        fix = f"add `{self.key}:`{self.doc}."
        return Finding(what, (Place(self.path),), fix, rule="missing-key")

    def unknown(self) -> Finding:
        if self.owner is SecretRef:
            return patterns.no_source(self.path)
        known = sorted(self.owner.model_fields) if self.owner else []
        hint = did_you_mean(self.key, known)
        listed = f"; the keys known here are {', '.join(known)}" if known else ""
        if self.key.startswith("x-"):
            listed = ", or write it at the top of the file: only there a key may begin with `x-`"
        what = f"`{self.key}` is not a key of {render_path(self.path[:-1])}.{hint}"
        fix = "correct the spelling, or remove it." if hint else f"remove it{listed}."
        found = _problem("unknown-key", self.path, self.value, what, fix)
        return replace(found, wanted=_probably_meant(self.key, known))

    def choice(self) -> Finding:
        path, choices, value = self.path, _choices(self.context), self.value
        if "tag" in self.context:
            keys = members.quoted_words(self.context.get("discriminator"))
            value = cast("dict[str, object]", value).get(keys[0]) if keys else None
        if isinstance(value, int) and not isinstance(value, bool) and str(value) in choices:
            return wrong_type(path, value, "a text")
        if isinstance(value, str) and value in choices and value.isdigit():
            return wrong_type(path, value, "a number")
        is_system = path[:1] == ("switches",) and path[-1] == "os"
        way = _OTHER_SWITCHES if is_system else _WAYS.get(path, "")
        foreign = bool(way) and str(value).lower() in {*FOREIGN_SYSTEMS, "gke"}
        hint = did_you_mean(value, choices) if isinstance(value, str) and not foreign else ""
        hint = hint or (" No other system can be set." if is_system else "")
        what = f"{render_path(path)} cannot be {show_value(value)}.{hint}"
        only = choices[0] if choices else "another value"
        fix = f"write {only}; nothing else is supported here yet."
        if len(choices) > 1:
            fix = f"choose one of: {', '.join(choices)}{way}."
        return _problem("unknown-choice", path, value, what, fix)

    def no_kind(self) -> Finding:
        kinds: Sequence[ErrorDetails] = self.context["kinds"]
        choices = [word for kind in kinds for word in _choices(kind.get("ctx", {}))]
        others = [_KINDS[kind["type"]] for kind in kinds if kind["type"] in _KINDS]
        hint = did_you_mean(self.value, choices) if isinstance(self.value, str) else ""
        what = f" cannot be {show_value(self.value)}.{hint}"
        return self.found("unknown-choice", what, f"{' or '.join([*choices, *others])}{self.doc}")

    def bound(self) -> Finding:
        key, words = _BOUNDS[self.detail["type"]]
        wanted = f"{words} {self.context.get(key)}"
        what = f" is {show_value(self.value)}, and it must be {wanted}."
        return self.found("out-of-range", what, f"a number {wanted}")

    def pattern(self) -> Finding:
        wanted = patterns.describe_pattern(str(self.context.get("pattern", "")))
        what = f' is "{show_value(self.value)}", which is not {wanted}.'
        return self.found("malformed", what, mended(self.detail) or wanted)

    def refused(self) -> Finding:
        reason = str(self.context.get("error", self.detail["msg"])).rstrip(".")
        if len(reason) > _LONGEST_REASON:  # the library's message contains the whole value
            reason = f"{reason[:_LONGEST_REASON]}…"
        mends = (mend(str(self.value)) for words, mend in _REASONS.items() if words in reason)
        better = next(mends, "") or "it in the form shown above"
        return self.found("malformed", f": {reason}.", better)

    def refused_in_words(self) -> Finding:
        known = cast("Sequence[str]", self.context.get("known", ()))
        what = f"{render_path(self.path)}: {self.context.get('what')}."
        fix = f"{self.context.get('fix')}{did_you_mean(self.key, known) if known else ''}"
        return _problem("malformed", self.path, self.value, what, fix)

    def other(self) -> Finding:
        path, value, models = self.path, self.value, members.models_at(self.owner, self.path[-1:])
        if SecretRef in models:
            return patterns.secret_path(path, value) or patterns.open_secret(path)
        wanted = _KINDS.get(self.detail["type"], "another value")
        problem = wrong_type(path, value, wanted)
        names_them = self.detail["type"] == "dict_type"
        if models and not names_them and problem.fix.startswith("write a mapping"):
            keys = sorted({key for each in models for key in each.model_fields})
            return replace(problem, fix=f"write a mapping; its keys are {', '.join(keys)}.")
        key = next((item for item in reversed(path) if isinstance(item, str)), "")
        pattern = members.pattern_of(self.owner, key)
        is_form = wanted == "a text" and pattern in patterns.PATTERNS
        if is_form and isinstance(value, int | float) and not isinstance(value, bool):
            # Another form of text would be refused next, and YAML has dropped digits of the number.
            return replace(problem, fix=patterns.offer_number(pattern, value))
        return problem

    def length(self) -> Finding:
        info = self.owner.model_fields.get(self.key) if self.owner else None
        limits = [
            getattr(each, "min_length", None) or getattr(each, "max_length", None)
            for each in (info.metadata if info else ())
        ]
        limit = self.context.get("min_length", self.context.get("max_length"))
        side = "at least " if "min_length" in self.context else "at most "
        wanted = f"{'' if limits.count(limit) > 1 else side}{limit}"
        what = f" has {self.context.get('actual_length')} entries, and {wanted} are expected."
        return self.found("out-of-range", what, f"{wanted} entries{self.doc}")

    def too_long(self) -> Finding:
        wanted = f"at most {self.context.get('max_length')}"
        what = f" has {len(str(self.value))} characters, and {wanted} are expected."
        return self.found("out-of-range", what, f"a text of {wanted} characters")


def word_error(detail: ErrorDetails, model: type[BaseModel]) -> tuple[SpecPath, Finding]:
    """Turn one item of pydantic's `ValidationError.errors()` into a problem."""
    path, owner = members.owner_of(detail, model)
    return path, _WORDINGS.get(detail["type"], _Refused.other)(_Refused(path, detail, owner))


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


def _choices(context: Mapping[str, object]) -> list[str]:
    """The choices in pydantic's words: `'a', 'b' or 'c'`, or `1, 2 or 3`."""
    text = str(context.get("expected", context.get("expected_tags", "")))
    return members.quoted_words(text) or [each for each in re.split(r", | or ", text) if each]


def mended(detail: ErrorDetails) -> str:
    """Correct a refused text as the user probably meant it; empty if that is not possible."""
    value, pattern = detail["input"], str(detail.get("ctx", {}).get("pattern", ""))
    if detail["type"] == "string_pattern_mismatch":
        return patterns.mend_text(pattern, str(value))
    is_network = detail["type"] == "value_error" and isinstance(value, str)
    return _enclosing(value) if is_network and value.count("/") == 1 else ""


def _enclosing(text: str) -> str:
    try:
        return str(IPv4Network(text, strict=False))
    except ValueError:
        return ""


def _as_port(text: str) -> str:
    port = re.search(r"[0-9]+/[0-9]+(/[0-9]+)?\s*$", text)
    return "/".join(str(int(part)) for part in port[0].split("/")) if port else ""


_REASONS: Final[dict[str, Callable[[str], str]]] = {
    "is not a switch port": _as_port,
    "is not a PCI address": lambda text: (
        f"0000:{text.lower()}" if re.fullmatch(_SHORT_PCI, text) else ""
    ),
    "has host bits set": lambda text: f"the network itself: {_enclosing(text)}",
    "is a port GUID, and": lambda _: "the name of the host whose hca_guids has it",
    "in place of a port GUID": lambda _: "what ibstat prints as Port GUID on the host",
    "YAML reads this port GUID": lambda _: "it in quotes, as ibstat prints it",
}
"""Words in the model's error to a correction of the value."""


_WORDINGS: Final[dict[str, Callable[[_Refused], Finding]]] = {
    "missing": _Refused.missing,
    "union_tag_not_found": _Refused.missing,
    "union_tag_invalid": _Refused.choice,
    "extra_forbidden": _Refused.unknown,
    "literal_error": _Refused.choice,
    members.NO_KIND: _Refused.no_kind,
    "string_pattern_mismatch": _Refused.pattern,
    "value_error": _Refused.refused,
    REFUSED: _Refused.refused_in_words,
    "string_too_long": _Refused.too_long,
    "too_short": _Refused.length,
    "too_long": _Refused.length,
    **dict.fromkeys(_BOUNDS, _Refused.bound),
}
