"""The changes: each one turns a function into one that is wrong in one place."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias, cast

Made = list[ast.AST]
_COMPARED: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_COMPUTED: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}


@dataclass(frozen=True, slots=True)
class Change:
    """One wrong function."""

    function: str
    """Qualified name: `Class.method`."""
    line: int
    text: str
    """What became of what."""
    tree: ast.Module
    """The whole module with the change."""


def list_changes(source: str) -> Iterator[Change]:
    """All changes of a module's functions, in the order of its lines.

    Docstrings, annotations, defaults and decorators stay: they are not part of a function's code.
    The texts of errors stay too, but for those that are compared or looked up.

    Args:
        source: Text of the module.
    """
    module = ast.parse(source)
    for name, function in _functions(module):
        for node in _body(function):
            for made in _variants(node):
                changed = _replace(module, node, made)
                text = f"{_short(node)}  ->  {_short(made)}"
                yield Change(name, getattr(node, "lineno", 0), text, changed)


def with_notes(source: str, note: str) -> ast.Module:
    """A module whose functions first call another one with their own qualified name.

    Args:
        source: Text of the module.
        note: Name of that other function.
    """
    module = ast.parse(source)
    for name, function in _functions(module):
        call = ast.Call(ast.Name(note, ast.Load()), [ast.Constant(name)], [])
        function.body.insert(0, ast.copy_location(ast.Expr(call), function.body[0]))
    return ast.fix_missing_locations(module)


def _short(node: ast.AST) -> str:
    """A change in one line; of a statement with a body its head."""
    return ast.unparse(node).partition("\n")[0]


def _functions(module: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    for node in module.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        if isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef):
                    yield f"{node.name}.{inner.name}", inner


def _body(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """The nodes of what runs, annotations and the texts that are only said left out."""
    waiting: list[ast.AST] = [*reversed(function.body)]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, ast.AnnAssign):
            waiting += [node.value] if node.value else []
        elif not isinstance(node, ast.Raise | ast.JoinedStr):
            waiting += reversed([*ast.iter_child_nodes(node)])


def _variants(node: ast.AST) -> Made:
    found = (make(node) for kind, make in _MAKERS if isinstance(node, kind))
    return [made for group in found for made in group]


def _compared(node: ast.Compare) -> Made:
    made: Made = []
    for number, operator in enumerate(node.ops):
        other = copy.deepcopy(node)
        other.ops[number] = _COMPARED[type(operator)]()
        made.append(other)
    return [*made, *_texts(node, (node.left, *node.comparators))]


def _texts(node: ast.AST, parts: tuple[ast.AST, ...]) -> Made:
    """The same with another text where one is compared or looked up."""
    made: Made = []
    for part in parts:
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            made.append(_replaced(node, part, ast.Constant(part.value + "?")))
    return made


def _replaced(node: ast.AST, part: ast.AST, new: ast.AST) -> ast.AST:
    return _Replace(part, new).visit(_copy_but(node, part))


def _joined(node: ast.BoolOp) -> Made:
    other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    return [ast.BoolOp(other, node.values)]


def _computed(node: ast.BinOp) -> Made:
    is_text = any(
        isinstance(side, ast.JoinedStr | ast.Tuple | ast.List)
        or (isinstance(side, ast.Constant) and isinstance(side.value, str))
        for side in (node.left, node.right)
    )
    other = _COMPUTED.get(type(node.op))
    return [ast.BinOp(node.left, other(), node.right)] if other and not is_text else []


def _constant(node: ast.Constant) -> Made:
    match node.value:
        case bool():
            return [ast.Constant(not node.value)]
        case int() | float():
            return [ast.Constant(node.value + 1)]
        case _:
            return []


def _returned(node: ast.Return) -> Made:
    value = node.value
    is_nothing = value is None or (isinstance(value, ast.Constant) and value.value is None)
    return [] if is_nothing else [ast.Return(ast.Constant(None))]


def _if(node: ast.If | ast.IfExp | ast.While) -> Made:
    made: Made = []
    for value in (True, False):
        if isinstance(node, ast.While) and value:
            continue  # it would only not end
        other = copy.copy(node)
        other.test = ast.Constant(value)
        made.append(other)
    return made


def _comprehension(node: ast.comprehension) -> Made:
    if not node.ifs:
        return []
    return [ast.comprehension(node.target, node.iter, [], node.is_async)]


def _not(node: ast.UnaryOp) -> Made:
    return [node.operand] if isinstance(node.op, ast.Not) else []


def _looked_up(node: ast.Subscript) -> Made:
    return _texts(node, (node.slice,)) if isinstance(node.ctx, ast.Load) else []


def _continue(_node: ast.Continue) -> Made:
    return [ast.Break()]


_Kinds: TypeAlias = type[ast.AST] | tuple[type[ast.AST], ...]
_MAKERS: Final[tuple[tuple[_Kinds, Callable[..., Made]], ...]] = (
    (ast.Compare, _compared),
    (ast.BoolOp, _joined),
    (ast.BinOp, _computed),
    (ast.Constant, _constant),
    (ast.Return, _returned),
    ((ast.If, ast.IfExp, ast.While), _if),
    (ast.comprehension, _comprehension),
    (ast.UnaryOp, _not),
    (ast.Subscript, _looked_up),
    (ast.Continue, _continue),
)


class _Replace(ast.NodeTransformer):
    """One node for another, by identity."""

    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self._new if node is self._old else super().generic_visit(node)


def _copy_but(tree: ast.AST, kept: ast.AST) -> ast.AST:
    """A deep copy in which one node is the very same."""
    return copy.deepcopy(tree, {id(kept): kept})


def _replace(module: ast.Module, node: ast.AST, made: ast.AST) -> ast.Module:
    new = ast.copy_location(copy.deepcopy(made), node)
    changed = _Replace(node, new).visit(_copy_but(module, node))
    return ast.fix_missing_locations(cast("ast.Module", changed))
