"""Systematic faults in the objective's source: one operator, one selection, one sign at a time."""

import ast
from collections.abc import Iterator

SWAPPED_OPERATORS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}
SWAPPED_NAMES = {
    "minimum": "maximum",
    "maximum": "minimum",
    "amax": "amin",
    "amin": "amax",
    "min": "max",
    "max": "min",
    "exp": "expm1",
    "expm1": "exp",
}


class Mutator(ast.NodeTransformer):
    """Applies the fault with a given number and describes it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.seen = 0
        self.fault = ""

    def _hit(self, fault: str) -> bool:
        self.seen += 1
        if self.seen - 1 != self.number:
            return False
        self.fault = fault
        return True

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        other = SWAPPED_OPERATORS.get(type(node.op))
        # `int | None` in annotations is no arithmetic.
        if other is None or _is_annotation(node):
            return node
        if self._hit(f"{type(node.op).__name__} -> {other.__name__}: {ast.unparse(node)}"):
            node.op = other()
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        other = SWAPPED_OPERATORS.get(type(node.ops[0]))
        if other is not None and self._hit(f"negated {ast.unparse(node)}"):
            node.ops = [other(), *node.ops[1:]]
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.op, (ast.USub, ast.Invert, ast.Not)):
            return node
        return node.operand if self._hit(f"dropped sign: {ast.unparse(node)}") else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name = ast.unparse(node.func)
        if name == "masked" and self._hit(f"dropped {ast.unparse(node)}"):
            return node.args[0]
        if name.endswith(".detach") and self._hit(f"dropped detach: {ast.unparse(node)}"):
            return node.func.value  # type: ignore[attr-defined]
        if name.endswith((".clamp", ".clamp_")) and self._hit(f"dropped {ast.unparse(node)}"):
            return node.func.value  # type: ignore[attr-defined]
        is_choice = name == "torch.where" and len(node.args) == 3
        if is_choice and self._hit(f"swapped branches: {ast.unparse(node)}"):
            node.args[1], node.args[2] = node.args[2], node.args[1]
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if node.attr in SWAPPED_NAMES and self._hit(f"swapped {ast.unparse(node)}"):
            node.attr = SWAPPED_NAMES[node.attr]
        return node


def _is_annotation(node: ast.BinOp) -> bool:
    sides = {ast.unparse(node.left), ast.unparse(node.right)}
    return isinstance(node.op, ast.BitOr) and bool(
        sides & {"None", "str", "float", "Tensor", "Sequence[Tensor]", "Sequence[str]"}
    )


def mutants(source: str) -> Iterator[tuple[str, str]]:
    """Yields (fault, mutated source) for every place where a fault can be put."""
    number = 0
    while True:
        mutator = Mutator(number)
        tree = mutator.visit(ast.parse(source))
        if not mutator.fault:
            return
        yield mutator.fault, ast.unparse(ast.fix_missing_locations(tree))
        number += 1
