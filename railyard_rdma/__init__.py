"""The import package of Railyard: `run` is the whole program, `guarded` is for your own.

A checkout keeps the code in `components/` and `stacks/`. The wheel has both below this package.
"""

from stacks import guarded, run

__all__ = ["guarded", "run"]
