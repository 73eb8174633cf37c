"""Build the wheel and the sdist; pyproject.toml has everything that is not code."""

import shutil
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

ROOT = Path(__file__).parent
sys.path.insert(0, str(ROOT))

from components.project.one_package import (  # noqa: E402 - the line above makes it importable
    COMMIT_FILE,
    PACKAGE,
    commit_of,
    one_package,
)


def _write_commit(folder: Path) -> None:
    """Keep the commit; a build from an sdist has no git, and finds the file that the sdist has."""
    if commit := commit_of(ROOT):
        (folder / PACKAGE / COMMIT_FILE).write_text(f"{commit}\n")


class OnePackage(build_py):
    """Put `components` and `stacks` below the import package of our own."""

    def run(self) -> None:
        """Write the files; an editable installation uses the checkout as it is."""
        if self.editable_mode:
            super().run()
            return
        target = Path(self.build_lib)
        shutil.rmtree(target, ignore_errors=True)
        for name, content in one_package(ROOT):
            path = target / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        _write_commit(target)


class WithCommit(sdist):
    """An sdist that knows its commit."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        """Add the file to what setuptools copies."""
        super().make_release_tree(base_dir, files)  # pyright: ignore[reportUnknownMemberType] - setuptools is only partly typed
        _write_commit(Path(base_dir))


setup(cmdclass={"build_py": OnePackage, "sdist": WithCommit})
