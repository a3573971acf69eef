"""Digests of what lies outside the lake: problem files and model directories."""

import os
from dataclasses import dataclass
from pathlib import Path

from grpo_core.config import RunConfig
from grpo_core.models.directory import resolve_directory
from grpo_core.paths import PROJECT_ROOT, resolve_path
from grpo_core.prompts.ingest import source_paths
from grpo_core.store.canonical import sha256_json
from grpo_core.store.files import FileDigests
from grpo_core.store.models import model_digest, tokenizer_digest, weights_digest


@dataclass(frozen=True, slots=True)
class Externals:
    """Digests, 64 hex digits each.

    Args:
        prompts: Split name → digest of its source.
        policy: Initial policy: weights, config and tokenizer.
        reference: Weights and config of the reference.
        tokenizer: Tokenizer, template and end-of-sequence ids.
        verifier_version: Version of the grading rules.
        sql: Every query that an audit may run.
        functions: The user's reward functions; empty when there is none.
    """

    prompts: dict[str, str]
    policy: str
    reference: str
    tokenizer: str
    verifier_version: int
    sql: str
    functions: str = ""


def digest_externals(config: RunConfig, digests: FileDigests) -> Externals:
    """Digest everything outside the lake that `config` points to.

    Raises:
        ConfigError: A model directory that is none, or a reward function that cannot be found.
        DataContractError: A problem file that does not exist.
    """
    from grpo_core.rewards import VERIFIER_VERSION

    policy = model_directory(config.model.path)
    reference = model_directory(config.model.reference or config.model.path)
    with_code = config.model.trust_remote_code
    return Externals(
        prompts={
            split: _digest_paths(paths, digests)
            for split, paths in source_paths(config.prompts, PROJECT_ROOT).items()
        },
        policy=model_digest(policy, digests, with_code=with_code),
        reference=weights_digest(reference, digests, with_code=with_code),
        tokenizer=tokenizer_digest(policy, digests, with_code=with_code),
        verifier_version=VERIFIER_VERSION,
        sql=_digest_paths(sorted((PROJECT_ROOT / "sql").rglob("*.sql")), digests),
        functions=_digest_functions(config, digests),
    )


def _digest_functions(config: RunConfig, digests: FileDigests) -> str:
    """Digest of the verifiers by the code that they stand for; empty for the product's own."""
    from grpo_core.rewards.functions.reference import find_function, function_digest
    from grpo_core.rewards.verifier_names import BUILT_IN

    def digest(text: str) -> str:
        return function_digest(find_function(text), digests.digest)

    default, named = config.reward.function, config.reward.verifiers
    if default == BUILT_IN[0] and not named:
        return ""
    return sha256_json(
        {
            "function": default if default in BUILT_IN else digest(default),
            "verifiers": {name: digest(text) for name, text in sorted(named.items())},
        }
    )


def model_directory(path: str) -> Path:
    """Local directory of a model; a Hugging Face id is resolved to its downloaded snapshot.

    Raises:
        ConfigError: No such directory, and no such id can be fetched.
    """
    local = resolve_path(path)
    return local if local.is_dir() else resolve_directory(path)


def _digest_paths(paths: list[Path], digests: FileDigests) -> str:
    """Digest of one file by its bytes, of several by their names below a common parent too."""
    if len(paths) == 1:
        return digests.digest(paths[0])
    parent = Path(os.path.commonpath([path.parent for path in paths])) if paths else Path()
    return sha256_json({str(path.relative_to(parent)): digests.digest(path) for path in paths})
