"""`docs/config.md`: every setting, its default, what it means and which artefacts it keys.

`python -m grpo_core.config.document > docs/config.md` writes it; a test compares.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grpo_core.config.fields import declared_kinds, leaves
from grpo_core.config.run import RunConfig

_HEADER = """# Settings

Made by `python -m grpo_core.config.document > docs/config.md`; a test keeps it true. Set a value in
a TOML file (`grpo run --config FILE`), or with `--set section.field=value`. *Keys* are the kinds of
artefacts that a change invalidates (with everything downstream whose content changes); `execution`
settings change how a result is computed, never which; *by digest* means that the digest of what the
setting points to is an input of every artefact that reads it.
"""


@dataclass(frozen=True, slots=True)
class Setting:
    """One leaf of the configuration.

    Args:
        path: Dotted path; `train.phases.*` stands for each phase.
        default: Default in code; presets override it.
        meaning: Its description.
        kinds: Kinds of artefacts that it keys; empty for execution settings.
    """

    path: str
    default: Any
    meaning: str
    kinds: tuple[str, ...]


def settings() -> list[Setting]:
    """Every setting, in declaration order."""
    found: dict[str, Setting] = {}
    for path, field, value in leaves(RunConfig()):
        name, default = path, value
        if path.startswith("train.phases."):
            name, default = f"train.phases.*.{path.rsplit('.', 1)[1]}", "…"
        extra = field.json_schema_extra
        is_pointer = isinstance(extra, dict) and bool(extra.get("digest"))
        kinds = ("by digest",) if is_pointer else declared_kinds(field) or ()
        found.setdefault(name, Setting(name, default, _one_line(field.description or ""), kinds))
    return list(found.values())


def markdown(rows: Sequence[Setting]) -> Iterator[str]:
    """The page, line by line."""
    yield _HEADER
    for section, members in _by_section(rows).items():
        yield f"## {section}\n"
        yield "| setting | default | meaning | keys |"
        yield "|---|---|---|---|"
        for row in members:
            keys = ", ".join(row.kinds) or "execution"
            yield f"| `{row.path}` | `{row.default!r}` | {row.meaning} | {keys} |"
        yield ""


def _by_section(rows: Sequence[Setting]) -> Mapping[str, list[Setting]]:
    sections: dict[str, list[Setting]] = {}
    for row in rows:
        sections.setdefault(row.path.split(".")[0], []).append(row)
    return sections


def _one_line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write("\n".join(markdown(settings())))
