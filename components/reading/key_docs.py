"""What the model says of each key: the docstring below it in the source, read when it is asked for.

pydantic can take them into its fields (`use_attribute_docstrings`), but reads the source of every
class at import for it: a third of the time of `railyard check`.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Mapping
from functools import cache

from pydantic import BaseModel


@cache
def docs_of(model: type[BaseModel]) -> Mapping[str, str]:
    """Texts by key, without the line ends' indents; a key without a docstring is not there."""
    found: dict[str, str] = {}
    for kind in reversed(model.__mro__):
        if issubclass(kind, BaseModel) and kind is not BaseModel:
            found |= _classes_of(kind.__module__).get(kind.__name__, {})
    return found


@cache
def _classes_of(module: str) -> Mapping[str, Mapping[str, str]]:
    """Documented keys of each class at the top of a module."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {node.name: _keys_of(node) for node in tree.body if isinstance(node, ast.ClassDef)}


def _keys_of(body: ast.ClassDef) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for key, text in zip(body.body, body.body[1:], strict=False):
        match key, text:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(words))),
            ):
                found[name] = inspect.cleandoc(words)
            case _:
                pass
    return found
