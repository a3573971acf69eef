"""Where changes of the small lake that an audit must find are registered, and what they share."""

from collections.abc import Callable

from lake_fixture import LakeFixture
from lake_rows import Row

NAN = float("nan")
Mutation = Callable[[LakeFixture], None]
MUTATIONS: dict[str, dict[str, Mutation]] = {}


def breaks(name: str) -> Callable[[Mutation], Mutation]:
    """Register a mutation that makes the audit `name` fire."""

    def register(mutation: Mutation) -> Mutation:
        MUTATIONS.setdefault(name, {})[mutation.__name__] = mutation
        return mutation

    return register


def problems(lake: LakeFixture, split: str) -> list[Row]:
    rows = lake.rows("prompts", "prompts")
    return [row for row in rows if row["split"] == split and not row["duplicate_of"]]


def rollouts(lake: LakeFixture, *, live: bool = True) -> list[Row]:
    rows = lake.rows("train/1", "rollouts")
    return [row for row in rows if (row["drop_reason"] is None) == live]


def group_of(lake: LakeFixture, row: Row) -> list[Row]:
    place = (row["step"], row["group"])
    rows = lake.rows("train/1", "rollouts")
    return [other for other in rows if (other["step"], other["group"]) == place]


def stopped(rows: list[Row]) -> Row:
    return next(row for row in rows if row["finish_reason"] == "stop")
