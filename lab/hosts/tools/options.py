"""Reading a tool's command line: options with and without a value, and the words between."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from components.core.record import record


@record
class Options:
    """A command line, taken apart."""

    given: tuple[tuple[str, str], ...]
    """Options in their order with their values; a flag's value is empty."""
    words: tuple[str, ...]

    def last(self, *names: str, default: str = "") -> str:
        """The value of an option, the last one given winning."""
        return next((v for n, v in reversed(self.given) if n in names), default)

    def all(self, *names: str) -> tuple[str, ...]:
        """All values of an option."""
        return tuple(value for name, value in self.given if name in names)

    def has(self, *names: str) -> bool:
        """One of these options is given."""
        return any(name in names for name, _ in self.given)


def split_options(
    argv: Collection[str], valued: Collection[str], flags: Collection[str], *, mixed: bool
) -> Options | str:
    """Take a command line apart; the text is the first option that is unknown.

    Args:
        argv: The arguments.
        valued: Options that take a value, after `=` or as the next word.
        flags: Options that take none.
        mixed: Options may follow words; else the first word ends the options.
    """
    rest = list(argv)
    given: list[tuple[str, str]] = []
    words: list[str] = []
    while rest:
        word = rest.pop(0)
        if word == "--":
            break
        if not word.startswith("-"):
            words.append(word)
            if not mixed:
                break
            continue
        name, sign, value = word.partition("=")
        if name in valued and (sign or rest):
            given.append((name, value if sign else rest.pop(0)))
        elif word in flags:
            given.append((word, ""))
        else:
            return word
    return Options(tuple(given), (*words, *rest))


def pairs(texts: Iterable[str]) -> dict[str, str]:
    """`NAME=value` texts as a mapping; the last one of a name wins."""
    values: dict[str, str] = {}
    for text in texts:
        name, _, value = text.partition("=")
        values[name] = value
    return values
