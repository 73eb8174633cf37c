"""Text from outside in Markdown, as a reader of CommonMark shows it."""

from __future__ import annotations

import html
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.core.plain_text import code_block, code_cell, code_span
from tests.core.as_html import EVIL, as_html, assert_harmless

HOSTILE = st.text(alphabet="`|\\ \n\r\t<>@#/![]()*_~&;a\x1b\u202e\u2028-=", max_size=40)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("gpu01", "gpu01"),
        ("`", "`"),
        ("```", "```"),
        ("`a", "`a"),
        ("a``", "a``"),
        (" a", " a"),
        ("a ", "a "),
        ("   ", "   "),
        ("", " "),
        ("a ` b `` c", "a ` b `` c"),
        ("two\nlines", "two ⏎ lines"),
        ("two\r\n\r\nlines\n", "two ⏎ lines"),
        ("\x1b[2J\u202e\t", r"\x1b[2J\u202e\t"),
    ],
)
def test_a_code_span_shows_the_text_itself(text: str, shown: str) -> None:
    assert as_html(code_span(text)) == f"<p><code>{shown}</code></p>\n"


@given(text=HOSTILE)
def test_any_text_is_one_span_and_nothing_else(text: str) -> None:
    span = code_span(text)
    assert "\n" not in span
    assert re.fullmatch(r"<p><code>[^<]*</code></p>\n", as_html(span))
    assert re.fullmatch(r"<ul>\n<li><code>[^<]*</code></li>\n</ul>\n", as_html(f"- {span}"))
    quoted = as_html(f"> {span} and {code_span(text)}")
    assert re.fullmatch(
        r"<blockquote>\n<p><code>[^<]*</code> and <code>[^<]*</code></p>\n</blockquote>\n", quoted
    )


@given(text=HOSTILE)
def test_any_text_is_one_cell(text: str) -> None:
    cells = f"| {code_cell(text)} | {code_cell(text)} |"
    body = as_html(f"| a | b |\n|---|---|\n{cells}\n").partition("<tbody>")[2]
    found = re.findall(r"<td><code>([^<]*)</code></td>", body)
    assert len(found) == 2
    assert body.count("<") == 12, "tr, two cells with code, the ends of the table"
    assert html.unescape(found[0]).count("|") == text.count("|")


@given(lines=st.lists(HOSTILE, max_size=4))
def test_any_lines_are_one_block(lines: list[str]) -> None:
    page = as_html(code_block(lines))
    assert re.fullmatch(r'<pre><code class="language-text">[^<]*</code></pre>\n', page)
    assert page.count("\n") == max(len(lines), 1) + 1


def test_a_long_text_is_cut_and_its_length_named() -> None:
    assert code_span("`" * 3_000).endswith("… (3,000 characters) " + "`" * 2_001)


def test_the_worst_name_of_a_neighbour_is_harmless() -> None:
    assert_harmless(f"{code_span(EVIL)}\n\n- {code_span(EVIL)}\n\n{code_block([EVIL])}\n")
