"""How a config leaf declares, beside itself, which artefacts it keys.

Every leaf is made with `keyed` (it enters the key of the named kinds of artefact) or `execution`
(device, threads, batch shapes, frequencies: in no key, results are the same), or `by_digest`
(a path: what it points to enters the keys). A test refuses leaves that declare none of them.
"""

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.fields import FieldInfo

from grpo_core.types import Kind

_NO_ABSENT = object()


class Section(BaseModel):
    """Parent of every config section: frozen, unknown keys refused, docstrings as descriptions."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False
    )


def keyed(default: Any, *kinds: Kind, absent: Any = _NO_ABSENT, **constraints: Any) -> Any:
    """A leaf that enters the key of `kinds`.

    Args:
        default: Value when nothing is configured; `...` for a required field.
        kinds: Kinds of artefact whose content depends on the field.
        absent: Value at which the field is left out of the key. Fields that a later release adds
            name the value that means "as before", so that no lake is invalidated.
        constraints: Bounds for `pydantic.Field` (`ge`, `lt`, …).
    """
    extra: dict[str, Any] = {"keys": [kind.value for kind in kinds]}
    if absent is not _NO_ABSENT:
        extra["absent"] = absent
    return Field(default, json_schema_extra=extra, **constraints)


def execution(default: Any, **constraints: Any) -> Any:
    """A leaf that changes how a result is computed, never which: in no key."""
    return Field(default, json_schema_extra={"keys": []}, **constraints)


def by_digest(default: Any) -> Any:
    """A path or model id: keys hold the digest of what it points to, never the text."""
    return Field(default, json_schema_extra={"keys": [], "digest": True})


def leaves(section: BaseModel, prefix: str = "") -> Iterator[tuple[str, FieldInfo, Any]]:
    """Yield (dotted path, field, value) of every leaf, in declaration order.

    Tuples of sections (the phases) yield `train.phases.0.max_steps` and so on.
    """
    for name, field in type(section).model_fields.items():
        path, value = f"{prefix}{name}", getattr(section, name)
        if isinstance(value, BaseModel):
            yield from leaves(value, f"{path}.")
        elif isinstance(value, tuple) and value and isinstance(value[0], BaseModel):
            for index, item in enumerate(value):
                yield from leaves(item, f"{path}.{index}.")
        else:
            yield path, field, value


def declared_kinds(field: FieldInfo) -> tuple[str, ...] | None:
    """The kinds a leaf keys, () for execution leaves, None when it declares nothing."""
    extra = field.json_schema_extra
    if not isinstance(extra, dict) or "keys" not in extra:
        return None
    keys = extra["keys"]
    return tuple(str(kind) for kind in keys) if isinstance(keys, (list, tuple)) else None
