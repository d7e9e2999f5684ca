"""The mutants of a source file: every small change that a good test suite should notice.

Docstrings, log lines, annotations, decorators, assertions, f-strings and `__repr__` are left alone: no test
should depend on them.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

_OPERATORS: dict[type[ast.AST], Any] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
_SKIPPED_FIELDS = {"annotation", "returns", "decorator_list", "bases", "pattern"}
_SKIPPED_NODES = (ast.Assert, ast.JoinedStr, ast.Import, ast.ImportFrom)
_PLAIN_TESTS = (ast.Name, ast.Attribute, ast.Call)  # others have changes of their own
_SKIPPED_CALLS = {"cast", "isinstance", "issubclass", "TypeVar", "getattr"}


@dataclass(frozen=True, slots=True)
class Mutant:
    path: str  # relative to the repository
    line: int
    last_line: int
    function: str  # or class, by its qualified name; "" at the level of the module
    is_imported: bool  # runs when its module is imported, not when a function is called
    before: str
    after: str
    source: bytes  # the whole file, mutated

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.function or 'module'}: {self.before} => {self.after}"

    @property
    def key(self) -> str:
        """Stays the same while other lines change."""
        return f"{self.path}: {self.function or 'module'}: {self.before} => {self.after}"


def mutants_of(path: Path, name: str) -> Iterator[Mutant]:
    source = path.read_bytes()
    lines = source.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    for node, statement, scope in _walk(ast.parse(source), None, _Scope()):
        for old, after in _changes(node):
            first = starts[old.lineno - 1] + old.col_offset
            last = starts[(old.end_lineno or old.lineno) - 1] + (old.end_col_offset or 0)
            text = after if isinstance(old, ast.stmt) else f"({after})"
            mutated = source[:first] + text.encode() + source[last:]
            last_line = max(old.end_lineno or old.lineno, _last_line(statement))
            place = name, old.lineno, last_line, scope.name, scope.is_imported
            yield Mutant(*place, ast.unparse(old), after, mutated)


class _Scope(NamedTuple):
    name: str = ""
    is_imported: bool = True

    def inner(self, node: ast.AST) -> "_Scope":
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                return _Scope(f"{self.name}.{name}".lstrip("."), is_imported=False)
            case ast.ClassDef(name=name):
                return _Scope(f"{self.name}.{name}".lstrip("."), self.is_imported)
        return self


def _walk(
    node: ast.AST, statement: ast.stmt | None, scope: _Scope
) -> Iterator[tuple[ast.stmt | ast.expr, ast.stmt, _Scope]]:
    """Every node that may be changed, with its statement and where it stands."""
    for field, value in ast.iter_fields(node):
        if field in _SKIPPED_FIELDS:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _is_skipped(child):
                own = child if isinstance(child, ast.stmt) else statement
                inner = scope.inner(child)
                if isinstance(child, ast.arguments):  # defaults are evaluated with the definition
                    inner = inner._replace(is_imported=True)
                if isinstance(child, ast.stmt | ast.expr) and own is not None:
                    yield child, own, inner
                yield from _walk(child, own, inner)


def _is_skipped(node: ast.AST) -> bool:
    match node:
        case ast.FunctionDef(name="__repr__") | ast.Expr(value=ast.Constant()):
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=("_log" | "log" | "logger"))))):
            return True
        case ast.Assign(targets=[ast.Name(id=("__all__" | "__slots__"))]):
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
    return isinstance(node, _SKIPPED_NODES)


def _last_line(statement: ast.stmt) -> int:
    body = getattr(statement, "body", None) or getattr(statement, "cases", None)
    if not body:
        return statement.end_lineno or statement.lineno
    first = body[0].pattern if isinstance(body[0], ast.match_case) else body[0]
    return max(statement.lineno, first.lineno - 1)


def _changes(node: ast.stmt | ast.expr) -> Iterator[tuple[ast.stmt | ast.expr, str]]:
    """Pairs of a part of the code and its replacement."""
    if isinstance(node, ast.If | ast.While | ast.IfExp) and isinstance(node.test, _PLAIN_TESTS):
        yield node.test, f"not {ast.unparse(node.test)}"
    changed = _changed_statement(node) if isinstance(node, ast.stmt) else _changed_expression(node)
    if changed is not None:
        yield node, changed


def _changed_statement(node: ast.stmt) -> str | None:
    match node:
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) != "None":
            return "return None"
        case ast.Expr(value=ast.Call() | ast.Yield() | ast.YieldFrom()) | ast.Raise() | ast.Delete():
            return "pass"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]) | ast.AugAssign() | ast.Break():
            return "pass"
        case ast.Continue():
            return "break"
    return None


def _changed_expression(node: ast.expr) -> str | None:
    match node:
        case ast.Compare(left, [op], comparators):
            return ast.unparse(ast.Compare(left, [_OPERATORS[type(op)]()], comparators))
        case ast.BinOp(left, op, right) if type(op) in _OPERATORS:
            return ast.unparse(ast.BinOp(left, _OPERATORS[type(op)](), right))
        case ast.BoolOp(op, values):
            return ast.unparse(ast.BoolOp(_OPERATORS[type(op)](), values))
        case ast.UnaryOp(ast.Not(), operand):
            return ast.unparse(operand)
        case ast.Constant(bool(value)):
            return str(not value)
        case ast.Constant(int(value)):
            return str(value + 1)
        case ast.Call(function, [first, second, *rest], keywords) if _can_swap(node):
            return ast.unparse(ast.Call(function, [second, first, *rest], keywords))
    return None


def _can_swap(call: ast.Call) -> bool:
    """Whether its first two arguments may change places."""
    if isinstance(call.func, ast.Name) and call.func.id in _SKIPPED_CALLS:
        return False
    is_starred = any(isinstance(argument, ast.Starred) for argument in call.args)
    return not is_starred and ast.unparse(call.args[0]) != ast.unparse(call.args[1])
