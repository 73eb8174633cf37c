"""authorized_keys lines as sshd reads them: options before the key (sshd(8)), pure."""

from __future__ import annotations

import fnmatch
import ipaddress
from collections.abc import Iterable

from components.core.record import record

KEY_FIELDS = 2


@record
class KeyLine:
    """One accepted key."""

    blob: str
    """The key in base64."""
    command: str | None = None
    """The forced command."""
    sources: tuple[str, ...] = ()
    """Patterns of `from=`; empty: every address."""

    def admits(self, address: str) -> bool:
        """Whether a connection from this address may use the key."""
        if not self.sources:
            return True
        if any(matches(source[1:], address) for source in self.sources if source[:1] == "!"):
            return False
        return any(matches(source, address) for source in self.sources if source[:1] != "!")


def matches(pattern: str, address: str) -> bool:
    """Whether an address fits a pattern: a network in CIDR form, or one with * and ?."""
    try:
        return ipaddress.ip_address(address) in ipaddress.ip_network(pattern)
    except ValueError:
        return fnmatch.fnmatchcase(address, pattern)


def parse_line(line: str) -> KeyLine | None:
    """Read one line; None for a comment, and for what sshd would skip as malformed."""
    text = line.strip()
    if not text or text.startswith("#"):
        return None
    options = "" if _is_key_type(text.split()[0]) else _leading_options(text)
    fields = text[len(options) :].split()
    if len(fields) < KEY_FIELDS or not _is_key_type(fields[0]):
        return None
    values: dict[str, str] = {}
    for option in _split_options(options):
        name, _, value = option.partition("=")
        values[name.lower()] = value
    sources = _unquote(values.get("from", ""))
    command = values.get("command")
    return KeyLine(
        fields[1],
        None if command is None else _unquote(command),
        tuple(source for source in sources.split(",") if source),
    )


def find_key(lines: Iterable[str], blob: str, address: str) -> KeyLine | None:
    """The first line that lets this key in from this address."""
    parsed = (parse_line(line) for line in lines)
    return next((k for k in parsed if k and k.blob == blob and k.admits(address)), None)


def _is_key_type(word: str) -> bool:
    return word.startswith(("ssh-", "ecdsa-sha2-", "sk-"))


def _leading_options(text: str) -> str:
    quoted = False
    for index, sign in enumerate(text):
        if sign == '"' and text[index - 1 : index] != "\\":
            quoted = not quoted
        elif sign in " \t" and not quoted:
            return text[:index]
    return text


def _split_options(text: str) -> list[str]:
    options: list[str] = []
    start, quoted = 0, False
    for index, sign in enumerate(text):
        if sign == '"' and text[index - 1 : index] != "\\":
            quoted = not quoted
        elif sign == "," and not quoted:
            options.append(text[start:index])
            start = index + 1
    return [*options, text[start:]] if text else options


def _unquote(value: str) -> str:
    inner = value[1:-1] if value[:1] == value[-1:] == '"' and len(value) > 1 else value
    return inner.replace('\\"', '"')
