"""Plus-minus written out as its two values."""

from grpo_core.rewards.answers import Answer, Items, Scalar
from grpo_core.rewards.nodes import Node, Op


def expanded(answer: Answer) -> Answer:
    """Return an answer with plus-minus written out as its two values."""
    if isinstance(answer, Scalar) and has_sign(answer.node):
        signs = (with_sign(answer.node, plus=True), with_sign(answer.node, plus=False))
        return Items("set", tuple(Scalar(node, answer.unit) for node in signs))
    if isinstance(answer, Items) and answer.kind != "tuple":
        items: list[Answer] = []
        for item in map(expanded, answer.items):
            items.extend(item.items if isinstance(item, Items) and item.kind == "set" else [item])
        return Items(answer.kind, tuple(items))
    return answer


def has_sign(node: Node) -> bool:
    """Whether a tree holds a plus-minus."""
    if not isinstance(node, Op):
        return False
    return node.name in ("pm", "mp") or any(map(has_sign, node.args))


def with_sign(node: Node, *, plus: bool) -> Node:
    """Return a tree with its plus-minus taken as plus, or as minus."""
    if not isinstance(node, Op):
        return node
    args = tuple(with_sign(part, plus=plus) for part in node.args)
    if node.name not in ("pm", "mp"):
        return Op(node.name, args)
    left, right = args
    positive = plus == (node.name == "pm")
    return Op("add", (left, right if positive else Op("neg", (right,))))
