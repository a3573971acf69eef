"""What a run is made of and what of it is already there; imports neither torch nor prefect."""

from grpo_core.planning.graph import Graph, InputRef, Node, build_graph
from grpo_core.planning.plan import PlanRow, PlanState, plan

__all__ = ["Graph", "InputRef", "Node", "PlanRow", "PlanState", "build_graph", "plan"]
