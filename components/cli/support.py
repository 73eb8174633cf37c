"""`railyard support-bundle STACK`: facts about a stack for a colleague or vendor, without secrets.

Every text is masked before it is cut or packed: known secrets in their usual encodings, then forms
that look like one. What cannot be read is listed in the manifest, and the rest is packed.
"""

from __future__ import annotations

import base64
import hashlib
import html
import io
import json
import os
import platform
import re
import tarfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar, cast
from urllib.parse import quote, quote_plus, unquote

import typer
import yaml

from components.acceptance.handover import EVIDENCE_STEP, parse_named, read_proof
from components.acceptance.report.archive import latest_evidence, run_folder, write_whole
from components.artefacts.lock import lock_path
from components.cli.accept import connect
from components.cli.app import StackName, ToLook, keep_sites, option, say
from components.cli.stack import Stack, load_stack, pulumi, read_config
from components.cli.status import look_at, make_status, render_text, report_drift
from components.core.errors import RailyardError, UsageError
from components.core.limits import read_file, read_text
from components.core.plain_text import counted
from components.core.to_json import to_json
from components.drift.applied import SEALED
from components.model.operators import versions_of
from components.project.engine import look_at_engine
from components.project.wheel import own_commit, own_version
from components.reading.site_path import SITE_KEY, config_file, read_site
from components.update.secrets import secret_names

SCHEMA_VERSION: Final = 1
"""Version of the manifest; it rises when a key changes its meaning or goes."""
MASKED: Final = "[secret]"
FILE_BYTES: Final = 4 << 20
"""Limit of one file of the bundle; the end of a longer text is kept."""
BUNDLE_BYTES: Final = 48 << 20
"""Limit of all files together, before they are packed; about 5 MB then."""
_LOG_BYTES: Final = 16 << 20
"""A longer log is left out: a part could begin within a secret."""
_LEAST: Final = 4
"""Shortest masked secret: masking a `1` would reveal it."""
_LONG: Final = 8
"""Shortest masked text of which only a part is secret."""
_WORD: Final = 16
"""Shortest word in them that may be a key or a token."""
_EVENTS: Final = 300
_KEYED: Final = re.compile(
    r"(?i)(?<![\w.-])(?=[\w.-]*?(?:passw(?:or)?d|passphrase|secret|token|api[_-]?key|access[_-]?key"
    r"|private[_-]?key|key-data|credential|community|salt|secure|\.dockerconfigjson))"
    r"(?P<key>[\w.-]++[\"']?[ \t]*+[:=][ \t]*)"
    r"(?P<value>\"(?:[^\"\\]|\\.)*\"|'[^']*'|[^\s\"',{}\[\]&*!|>][^\s\"',}\]]*)"
)
"""A key whose name says that its value is secret, with a plain value. Each word is tried once: a
line of a log may have megabytes."""
_FORMS: Final = (
    re.compile(
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL
    ),
    re.compile(r"LS0tLS1CRUdJTi[A-Za-z0-9+/=]*"),
    re.compile(r"eyJ[\w-]{8,}\.[\w-]+\.[\w-]*"),
    re.compile(r"\bK10[0-9a-f]{32,}::\S+"),
    re.compile(r"\$(?:1|2[abxy]|5|6|7|8|9|y)\$[^\s:\"',]+"),
    re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    re.compile(r"\b(?:gh[oprsu]_|github_pat_|glpat-|pul-|nvapi-|xox[abp]-|hvs\.)[\w-]{16,}"),
    re.compile(r"(?i)(?<=bearer )\S{8,}|(?<=ion: basic )\S+"),
    re.compile(r"(?<=://)[^/\s:@\"]*:[^/\s\"]+(?=@)"),
    re.compile(
        r"(?i)(?<=password )\d \S+|(?<=secret )\d \S+|(?<=key )\d \S+|(?<=server community )\S+"
    ),
    re.compile(r"(?i)(?<=--password[ =])\S+|(?<=--token[ =])\S+"),
)
"""Private keys and their base64, JSON web tokens, tokens of K3s, crypt(3), clouds and services,
headers of HTTP, logins in addresses, lines of switches, options of programs."""
_PLAIN: Final = {"", "true", "false", "null", MASKED}
_SECRET_NAME: Final = re.compile(r"(?i)pass|secret|token|credential|private|api_?key|access_?key")
"""Names of environment variables whose values are masked."""
_PLAIN_WORD: Final = re.compile(r"(?:^|[._/-])[a-z]*[g-z][a-z]*(?:[._/-]|$)")
"""A part of a word that no hexadecimal or base64 token has: `net.core.somaxconn`."""
_ADDRESS: Final = re.compile(
    r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.]*\d)"
    r"|(?<![\w:])(?:[0-9a-f]{2}[:-]){5,19}[0-9a-f]{2}(?![\w:])"
    r"|(?<![\w:.])[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){2,7}(?:\.\d{1,3}){0,3}(?![\w:])"
    r"|\b0x[0-9a-f]{16}\b",
    re.IGNORECASE,
)
"""IPv4, MAC and IB hardware addresses, IPv6 and GIDs, GUIDs."""
_HARDWARE: Final = re.compile(
    r"0x.*|(?:[0-9a-f]{2}[:-]){5,19}[0-9a-f]{2}|(?:[0-9a-f]{4}:){3}[0-9a-f]{4}"
)
_KEPT: Final = frozenset({"127.0.0.1", "::", "::1"})
_Value = TypeVar("_Value")
_NEVER: Final = {
    "kubeconfig, private keys, passwords and tokens": "secrets are never packed",
    "values of the state": "they have secrets; stack.json names the resources",
    "the plan": "`railyard plan` prints it from the site; stack.json has its digest",
    "messages of the last update": "the engine keeps none: run `pulumi up 2>&1 | tee up.log`"
    " and add --log up.log",
}


def _secret_parts(value: str, least: int = _LEAST) -> Iterator[str]:
    """Yield the parts of a secret to mask: one line as a whole, and words like a token."""
    text = value.strip()
    if "\n" not in text:
        yield from [text] if len(text) >= least else []
    else:
        yield from (found["value"].strip("\"'") for found in _KEYED.finditer(text))
        yield from re.findall(r"(?m)^[A-Za-z0-9+/=]{8,}$", text)
    for word in re.findall(r"[^\s\"',;=:{}\[\]]+", text):
        if len(word) >= _WORD and not _PLAIN_WORD.search(word):
            yield word
            with suppress(ValueError):  # such as the key in a kubeconfig
                inner = base64.b64decode(f"{word}{'=' * (-len(word) % 4)}", validate=True).decode()
                yield from _secret_parts(inner, _LONG)


def _encodings(secret: str) -> Iterator[str]:
    """Yield the forms in which files and logs write a secret."""
    yield from (secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1])
    yield from (quote(secret, safe=""), quote_plus(secret), html.escape(secret))
    yield from (secret.replace("'", "'\"'\"'"), secret.replace("'", r"'\''"))
    if len(secret) >= _LONG:
        once = [*_in_base64(secret)]
        yield from (*once, *(again for each in once for again in _in_base64(each)))


def _either(texts: Sequence[str], shared: int) -> str:
    """Match any of the texts, the first one that fits; a common beginning is tried only once."""
    if not shared:
        return "|".join(map(re.escape, texts))
    rests: dict[str, list[str]] = {}
    for text in texts:
        rests.setdefault(text[:1], []).append(text[1:])
    inner = ((re.escape(each), _either(rest, shared - 1)) for each, rest in rests.items())
    return "|".join(f"{letter}(?:{rest})" for letter, rest in inner)


def _in_base64(text: str) -> Iterator[str]:
    """Yield the characters that base64 writes for a text at each of its three offsets."""
    raw = text.encode()
    for offset in range(3):
        written = base64.b64encode(b"\0" * offset + raw).decode()
        yield written[(offset * 8 + 5) // 6 : (offset + len(raw)) * 8 // 6]


@dataclass(slots=True)
class Masks:
    """The secrets and addresses to mask in each text."""

    secrets: set[str] = field(default_factory=set[str], repr=False)
    names: set[str] = field(default_factory=set[str])
    """Names of secrets and resources, which stay."""
    addresses: dict[str, str] | None = None
    """Address to its name in this bundle; None if addresses stay."""
    hosts: set[str] = field(default_factory=set[str])
    """Addresses of devices in lower case, also names."""
    _known: re.Pattern[str] | None = None
    """Matches every form of the secrets; None until they are needed again."""

    def add(self, values: Iterable[str], least: int = _LEAST) -> None:
        """Mask these secrets."""
        self.secrets |= {part for value in values for part in _secret_parts(value, least)}
        self.secrets -= self.names
        self._known = None

    def learn(self, text: str) -> None:
        """Mask the values of the keys in a text whose names say that they are secret."""
        values = {found["value"].strip("\"'") for found in _KEYED.finditer(text)}
        self.add(values - self.names - _PLAIN)

    def data(self, value: object, key: str = "") -> object:
        """Return JSON data whose texts are masked, below the key of an object."""
        if isinstance(value, dict):
            entry = cast("dict[str, object]", value)
            return {self(name): self.data(item, name) for name, item in entry.items()}
        if isinstance(value, list):
            return [self.data(item, key) for item in cast("list[object]", value)]
        if not isinstance(value, str):
            return value
        is_plain = value in self.names | _PLAIN or not _KEYED.fullmatch(f"{key}: x")
        return self(value) if is_plain else MASKED

    def __call__(self, text: str) -> str:
        """Return the text without secrets, and without addresses if those are masked."""
        if self._known is None:
            found = {form for each in self.secrets for form in _encodings(each)}
            forms = sorted((form for form in found if len(form) >= _LEAST), key=len, reverse=True)
            self._known = re.compile(_either(forms, _LEAST) or "(?!)")
        text = self._known.sub(MASKED, text)
        for form in _FORMS:
            text = form.sub(MASKED, text)
        text = _KEYED.sub(self._keyed, text)
        if self.addresses is None:
            return text
        names = "|".join(re.escape(each) for each in sorted(self.hosts, key=len, reverse=True))
        text = re.sub(rf"(?i)(?<![\w.-])(?:{names or '(?!)'})(?![\w-])", self._address, text)
        return _ADDRESS.sub(self._address, text)

    def _keyed(self, found: re.Match[str]) -> str:
        value = found["value"].strip("\"'")
        is_plain = value in self.names | _PLAIN
        return found[0] if is_plain else found["key"] + found["value"].replace(value, MASKED)

    def _address(self, found: re.Match[str]) -> str:
        address, known = found[0].lower(), self.addresses or {}
        is_one = address in self.hosts or _HARDWARE.fullmatch(address)
        with suppress(ValueError):
            is_one = is_one or ip_address(address)
        if address in _KEPT or not is_one:
            return found[0]
        return known.setdefault(address, f"address-{len(known) + 1}")


@dataclass(slots=True)
class Gathered:
    """The texts of a bundle before they are masked."""

    masks: Masks
    files: dict[str, object] = field(default_factory=dict[str, object], repr=False)
    """Name to its text, or to JSON data."""
    left_out: dict[str, str] = field(default_factory=dict[str, str])
    """Name to the reason."""
    failed: list[str] = field(default_factory=list[str])
    """Names in `left_out` whose reading failed."""

    def attempt(self, name: str, read: Callable[[], _Value]) -> _Value | None:
        """Read something; a failure is a line of the manifest and does not end the bundle."""
        try:
            return read()
        except RailyardError as error:
            why = str(error)
        except Exception as error:  # noqa: BLE001 - a bundle is made when something is broken
            why = f"{type(error).__name__}: {error}"
        self.left_out[name] = why
        self.failed.append(name)
        return None

    def put(self, name: str, value: object) -> None:
        """Add a text, or a value as JSON."""
        if name.endswith(".json") and isinstance(value, str):
            with suppress(ValueError):  # such as a log with an object on each line
                value = json.loads(value)
        self.files[name] = value if isinstance(value, str) else to_json(value)

    def masked(self, name: str) -> str:
        """Return a file as the bundle has it, but for its length."""
        value = self.files[name]
        if isinstance(value, str):
            return f"{self.masks(value).rstrip()}\n"
        return json.dumps(self.masks.data(value), indent=1) + "\n"


def support_bundle(
    stack: StackName = "",
    *,
    out: Annotated[Path | None, option("the file to write")] = None,
    mask_addresses: Annotated[
        bool, option("Mask IP, MAC and IB addresses too.", "--mask-addresses")
    ] = False,
    look: ToLook = True,
    log: Annotated[list[Path] | None, option("a text to add; may be repeated")] = None,
) -> None:
    """Pack what a colleague or vendor needs to help with a stack, without secrets.

    Changes nothing, and works if devices, the cluster or the stack do not answer. Exit codes: 0
    packed, 2 it cannot be written, 4 packed, but something could not be read.
    """
    now = datetime.now(UTC)
    path = out or Path(f"railyard-{stack.replace('/', '-')}-{now:%Y%m%d-%H%M%S}.tar.gz")
    keep_sites(path)
    if not path.parent.is_dir():  # before the devices are asked
        what = f"{path}: cannot be written: {path.parent} is not a folder"
        raise UsageError(f"{what}\n  fix    name another place with --out")
    found = Gathered(Masks(addresses={} if mask_addresses else None))
    _gather_here(found, stack, log or [])
    # Add what the engine, the devices and the cluster know, as far as they answer.
    masks, attempt = found.masks, found.attempt
    attempt("configuration", lambda: masks.add(read_config(stack).encrypted))
    exported = ["stack", "export", "--stack", stack, "--show-secrets"]
    attempt("state", lambda: masks.add(_sealed(json.loads(pulumi(exported))), _LONG))
    history = ["stack", "history", "--stack", stack, "--json", "--page-size", "10"]
    # What an update did and how it ended, without its configuration.
    kept = ("version", "kind", "startTime", "endTime", "result", "resourceChanges", "message")
    attempt(
        "history",
        lambda: found.put(
            "history.json",
            [{key: each.get(key) for key in kept} for each in json.loads(pulumi(history))],
        ),
    )
    loaded = attempt("stack", lambda: load_stack(stack))
    if loaded is not None:
        _gather_loaded(found, loaded, now, look=look)
    attempt("report", lambda: _put_report(found, stack, loaded, look=look))
    body = _pack(found, stack, path.name.partition(".")[0] or stack, now)
    try:
        write_whole(path, body)
    except OSError as error:
        fix = "name another place with --out"
        raise UsageError(f"{path}: cannot be written: {error.strerror}\n  fix    {fix}") from error
    say(f"{path}: {counted(len(found.files), 'file')}, {len(body) >> 10} KiB, mode 0600")
    for name in found.failed:
        say(f"left out {name}: {found.masks(found.left_out[name])}")
    say("Read it before you send it: MANIFEST.json lists what it has and what it lacks.")
    raise typer.Exit(4 if found.failed else 0)


def _gather_here(found: Gathered, stack: str, logs: Iterable[Path]) -> None:
    """Add what needs neither the engine nor a device: versions, site, lock and the named texts."""
    found.masks.add(value for name, value in os.environ.items() if _SECRET_NAME.search(name))
    logins = re.findall(r"://[^/\s:@]*:([^@\s/]+)@", "\n".join(os.environ.values()))
    found.masks.add([*logins, *map(unquote, logins)])
    engine = found.attempt("engine", lambda: look_at_engine(os.environ, Path.cwd()))
    versions = {"railyard": own_version(), "commit": own_commit(), "system": platform.platform()}
    versions |= {"python": platform.python_version()}
    if engine is not None:
        versions |= {f"plugin {each.name}": each.version for each in engine.plugins}
        backend = engine.backend.partition("://")[0]
        versions |= {"pulumi": engine.version, "pulumi SDK": engine.wanted, "backend": backend}
    found.put("versions.json", versions)
    found.attempt("site", lambda: _put_site(found, stack))
    for number, path in enumerate(logs, 1):
        name = f"logs/{path.name}"
        name = f"logs/{number}-{path.name}" if name in found.files else name
        found.attempt(str(path), lambda path=path, name=name: found.put(name, _log(path)))


def _log(path: Path) -> str:
    """Read a whole text, with marks for bytes outside of UTF-8."""
    return read_file(path, _LOG_BYTES).decode(errors="replace")


def _put_site(found: Gathered, stack: str) -> None:
    """Add the site and its lock; a site inside the stack's file is that file."""
    file = config_file(stack)
    text = read_text(file)
    try:
        found.masks.learn(text)
        written: Any = yaml.safe_load(text)
        site = written["config"].get(SITE_KEY)
        if site is not None:
            file, text = read_site(site, file)
        _mask_references(found.masks, yaml.safe_load(text))
        found.masks.learn(text)
    except yaml.YAMLError:  # its text would show lines of the file
        raise UsageError(f"{file} is no YAML, so its secrets cannot be found") from None
    found.put("site.yaml" if site else file.name, text)
    lock = lock_path(file)
    if lock.is_file():
        found.put(lock.name, read_text(lock))


def _mask_references(masks: Masks, value: object) -> None:
    """Keep the names of secrets; mask variables with one, and arguments of programs."""
    if isinstance(value, dict):
        entry = cast("dict[str, object]", value)
        key, only = next(iter(entry.items())) if len(entry) == 1 else ("", None)
        if key == "secret":
            masks.names.add(str(only))
        elif key == "env":
            masks.add([os.environ.get(str(only), "")])
        elif key == "command" and isinstance(only, list):
            masks.add(map(str, cast("list[object]", only)[1:]), _LONG)
        value = [*entry.values()]
    for each in cast("list[object]", value) if isinstance(value, list) else []:
        _mask_references(masks, each)


def _gather_loaded(found: Gathered, loaded: Stack, now: datetime, *, look: bool) -> None:
    masks, attempt, own, applied = found.masks, found.attempt, loaded.secrets, loaded.applied
    masks.names |= {*applied.steps, *applied.objects, *applied.releases}
    masks.add(own[name] for name in secret_names(loaded.spec) if name in own)
    read = attempt("secrets from outside", lambda: loaded.all_secrets) or {}
    masks.add(value for name, value in read.items() if own.get(name) != value)
    masks.hosts |= {each.endpoint.address.lower() for each in loaded.plan.steps}
    described = {"plan_digest": loaded.plan.digest, "versions": versions_of(loaded.spec)}
    described |= {"steps": sorted(applied.steps), "objects": sorted(applied.objects)}
    described |= {"releases": sorted(applied.releases), "under_way": loaded.under_way}
    found.put("stack.json", described)
    seen = attempt("devices and cluster", lambda: look_at(loaded)) if look else None
    attempt("status", lambda: found.put("status.txt", render_text(make_status(loaded, seen, now))))
    if seen is not None:
        drift = attempt("drift", lambda: report_drift(loaded, seen.seen, seen.running)[0])
        found.put("drift.json", drift)
        attempt("facts", lambda: found.put("facts.json", seen.seen.devices))
        if loaded.plan.acceptance.access:
            attempt("events", lambda: found.put("events.json", _events(loaded)))


def _sealed(value: object, *, inside: bool = False) -> Iterator[str]:
    """Yield each text within the engine's envelopes of secrets."""
    if isinstance(value, dict):
        entry = cast("dict[str, object]", value)
        if SEALED in entry:
            value, inside = [json.loads(str(entry.get("plaintext", "null")))], True
        else:
            value = [*entry.values()]
    if isinstance(value, str) and inside:
        yield value
    for each in cast("list[object]", value) if isinstance(value, list) else []:
        yield from _sealed(each, inside=inside)


def _events(loaded: Stack) -> list[dict[str, object]]:
    answer = connect(loaded).call("GET", "/api/v1/events?fieldSelector=type%3DWarning&limit=2000")
    if "items" not in answer.body:
        raise UsageError(f"the API refuses to list events: {answer.words}")
    items = cast("list[dict[str, Any]]", answer.body["items"])
    items.sort(key=lambda each: str(each.get("lastTimestamp") or each.get("eventTime") or ""))
    kept = ("reason", "message", "count", "firstTimestamp", "lastTimestamp", "eventTime")
    return [
        {**{key: each.get(key) for key in kept}, "about": each.get("involvedObject")}
        for each in items[-_EVENTS:]
    ]


def _put_report(found: Gathered, stack: str, loaded: Stack | None, *, look: bool) -> None:
    """Add the texts of the proof, or of the last run; its page has the Markdown's content."""
    step = loaded.applied.step(EVIDENCE_STEP) if loaded else None
    if loaded is not None and step is not None and step.stdout:
        last = parse_named(step.stdout)
        if last.store is not None and look:
            found.put("report/evidence.json", read_proof(last, loaded.all_secrets))
    elif (last := latest_evidence(stack)) is None:
        return
    folder = run_folder(stack, last.run)
    if not folder.is_dir():
        raise UsageError(f"{folder} is not on this machine")
    for path in sorted(folder.rglob("*")):
        if path.suffix in {".json", ".md", ".log", ".txt"}:
            name = f"report/{path.relative_to(folder)}"
            found.attempt(name, lambda path=path, name=name: found.put(name, _log(path)))


def _pack(found: Gathered, stack: str, top: str, now: datetime) -> bytes:
    """Mask, cut and list every text, and pack them below one folder."""
    listed: list[dict[str, object]] = []
    packed: dict[str, bytes] = {}
    room = BUNDLE_BYTES
    for name in found.files:
        body = found.masked(name).encode(errors="replace")
        kept = body[-FILE_BYTES:]
        if len(kept) > room:
            found.left_out[name] = f"the bundle would exceed {BUNDLE_BYTES >> 20} MiB"
            continue
        room -= len(kept)
        digest = hashlib.sha256(kept).hexdigest()
        listed.append({"name": name, "bytes": len(kept), "sha256": digest, "whole": kept == body})
        packed[name] = kept
    found.files["MANIFEST.json"] = {
        "schema_version": SCHEMA_VERSION, "stack": stack,
        "made_at": now.isoformat(timespec="seconds"),
        "addresses_masked": found.masks.addresses is not None,
        "files": listed, "left_out": found.left_out | _NEVER,
    }  # fmt: skip
    packed["MANIFEST.json"] = found.masked("MANIFEST.json").encode()
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w:gz") as archive:
        for name, body in packed.items():
            member = tarfile.TarInfo(f"{top}/{name}")
            member.size, member.mode, member.mtime = len(body), 0o600, int(now.timestamp())
            archive.addfile(member, io.BytesIO(body))
    return held.getvalue()
