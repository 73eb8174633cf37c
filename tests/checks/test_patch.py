"""A patch names one place and changes something, or it is refused."""

from __future__ import annotations

import pytest

from tests.checks.cases import with_reports
from tests.checks.patch import PatchError, patched

TEXT = """\
hosts:
  - name: a
    gpus: 8
    numa: 0
  - name: b
    gpus: 8
    numa: 1
"""


def _changed(*edits: tuple[str, str]) -> str:
    text = TEXT
    for old, new in edits:
        assert text.count(old) == 1
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize(
    ("patch", "changed"),
    [
        ("-    numa: 1\n+    numa: 3\n", _changed(("    numa: 1", "    numa: 3"))),
        ("-    numa: 0\n-  - name: b\n+\tb\n", _changed(("    numa: 0\n  - name: b", "\tb"))),
        ("@@ - name: b\n-    gpus: 8\n", _changed(("b\n    gpus: 8\n", "b\n"))),
        ("@@ gpus: 8\n@@ gpus: 8\n+  c:\n", _changed(("    numa: 1", "  c:\n    numa: 1"))),
        (
            "-    numa: 0\n@@\n-    numa: 1\n",
            _changed(("    numa: 0\n", ""), ("    numa: 1\n", "")),
        ),
        ("@@ numa: 1\n+jobs: {}\n", f"{TEXT}jobs: {{}}\n"),
    ],
)
def test_a_patch_changes_what_it_names(patch: str, changed: str) -> None:
    assert patched(TEXT, patch) == changed


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        ("-    numa: 7\n+    numa: 3\n", "not in the site, from line 1 on: ['    numa: 7']"),
        ("-    gpus: 8\n-    numa: 1\n+\n@@ - name: a\n-    gpus: 8\n", "from line 8 on"),
        ("@@ - name: c\n+    gpus: 1\n", "not in the site"),
        ("-    gpus: 8\n", "in several places"),
        ("+    gpus: 8\n", "nothing says where to put"),
        ("-    numa: 1\n+    numa: 1\n", "changes nothing"),
        ("", "nothing says where to put"),
        (" hosts:\n+  - name: c\n", "begins with @@, - or +"),
    ],
)
def test_a_patch_that_does_not_fit_is_refused(patch: str, words: str) -> None:
    with pytest.raises(PatchError) as refused:
        patched(TEXT, patch)
    assert words in str(refused.value)


def test_new_reports_leave_all_else_as_it_is_written() -> None:
    text = "# Room.\n\none: # so\n  why: x\n  expected: |\n    old\n      deep\n\ntwo:\n  why: y\n"
    done = with_reports(text, {"one": "new\n", "two": "other\n\n  more\n"})
    assert done == (
        "# Room.\n\none: # so\n  why: x\n  expected: |\n    new\n\n"
        "two:\n  why: y\n  expected: |\n    other\n    \n      more\n"
    )
