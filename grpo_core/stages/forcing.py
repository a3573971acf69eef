"""What `--force` means for an attempt that goes on with one that was stopped."""

from grpo_core.errors import ArtifactError
from grpo_core.planning.graph import Graph, Node
from grpo_core.stages.session import RunSession


def is_forced(session: RunSession, graph: Graph, node: Node, key: str) -> bool:
    """Whether a node is computed although it is there.

    Attempts that force a stage and end within it are one piece of work: what an earlier one of them
    has computed under the same key is not computed again, else a stage of several phases that is
    stopped would begin anew each time.

    Args:
        session: The attempt in progress.
        graph: Its graph.
        node: The node.
        key: Its key now.
    """
    if node.stage not in session.forced:
        return False
    size = len(graph.of_stage(node.stage))
    done: dict[str, str] = {}
    for number in range(session.attempt - 1, 0, -1):
        try:
            before = session.records.attempt(number)
        except ArtifactError:  # what it was for is not known: nothing before it counts
            break
        if before["state"] == "Completed" or node.stage not in before["request"]["force"]:
            break
        nodes = {n["label"]: n["key"] for n in before["nodes"] if n["stage"] == node.stage}
        if len(nodes) == size:
            break
        done = nodes | done
    return done.get(node.label) != key
