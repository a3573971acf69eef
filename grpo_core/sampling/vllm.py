"""The sampler on a vLLM engine: for GPUs and for models beyond the hf sampler's speed.

vLLM batches continuously and shares the prompt's KV cache over a group. Its rows depend on their
seeds alone, but through another generator than the hf sampler's: the two engines draw from the same
distribution, not the same rows.
"""

import logging
import math
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from torch import Tensor

from grpo_core.errors import EngineGoneError, NonFiniteError, SamplerError
from grpo_core.models.directory import CONFIG, WEIGHTS
from grpo_core.sampling.batches import check_requests
from grpo_core.sampling.checksum import differing
from grpo_core.sampling.proof import (
    PROOF_HINT,
    Score,
    SyncProof,
    Tolerance,
    probe_requests,
    prove,
)
from grpo_core.sampling.vllm_engine import VllmEngine
from grpo_core.store.models import code_files
from grpo_core.types import FinishReason, SampledCompletion, SamplingRequest

_LOG = logging.getLogger(__name__)

_SEED_BITS = (1 << 63) - 1
"""vLLM's seeds are signed 64-bit numbers."""
_COLDEST = 0.01
"""Below it vLLM raises the temperature without a word."""
_RESTARTS = 2
"""Engines that may die within one call before it gives up."""


Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class TrainerSide:
    """The policy as the trainer has it, to prove and to restore an engine.

    Args:
        score: Scores tokens with the trainer's weights.
        weights: Gives the trainer's weights, as `Sampler.sync` takes them.
        vocabulary_size: Ids that probes may use.
        tolerance: How far the engine's log-probs may lie from the trainer's.
    """

    score: Score
    weights: Callable[[], Iterable[tuple[str, Tensor]]]
    vocabulary_size: int
    tolerance: Tolerance


class VllmSampler:
    """Samples from a vLLM engine that is proven to hold the trainer's weights.

    Args:
        engine: Loaded with the trainer's weights.
        trainer: The policy as the trainer has it.
        eos_token_ids: Ids that end a completion; all of them count.
        context_tokens: Longest prompt plus completion.
        stop: Stop strings.

    Raises:
        SamplerError: The engine's log-probs are not the trainer's.
    """

    def __init__(
        self,
        engine: VllmEngine,
        trainer: TrainerSide,
        *,
        eos_token_ids: frozenset[int],
        context_tokens: int,
        stop: Sequence[str] = (),
    ) -> None:
        self._engine = engine
        self._trainer = trainer
        self._eos = sorted(eos_token_ids)
        self._context_tokens = context_tokens
        self._stop = list(stop)
        weights, _ = _without_ties(trainer.weights())
        self._shapes = {name: tuple(tensor.shape) for name, tensor in weights.items()}
        self._scratch = tempfile.TemporaryDirectory(prefix="grpo-weights-")
        self._saved = Path(self._scratch.name)
        self._is_synced = False
        self.last_proof = self._proven()

    def sample(self, requests: Sequence[SamplingRequest]) -> list[list[SampledCompletion]]:
        """Draw the completions of each request; see `protocol.Sampler`.

        An engine that dies is started anew with the same weights, proven, and asked again.
        """
        self._check(requests)

        def restore() -> None:
            self._restore()
            self.last_proof = self._proven()

        return self._lasting(lambda: self._draw(requests), restore)

    def sync(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        """Take over the trainer's weights and prove it; see `protocol.Sampler`.

        On GPUs they go through vLLM's weight transfer. On a CPU they go through a file; should the
        engine not take them over rightly, a new engine is started from it.

        Raises:
            SamplerError: Names or shapes do not fit, or the proof fails.
        """
        pairs, _ = _without_ties(weights)
        _check_names(pairs, self._shapes)
        if self._engine.settings.is_on_gpu:
            self._is_synced = True
            self._lasting(lambda: self._engine.receive(pairs.items()), self._restore)
            self.last_proof = self._proven()
            return
        self._save(pairs)
        self._lasting(lambda: self._engine.load(self._saved), self._restore)
        self.last_proof = self._proven()

    def sleep(self) -> None:
        """Give the GPU to the trainer until the next `sample` or `sync`."""
        self._lasting(self._engine.sleep, self._restore)

    def close(self) -> None:
        """Leave the engine to whoever comes next, without this sampler's files."""
        try:
            self._engine.sleep()
        except EngineGoneError as error:  # whoever comes next starts a new one
            _LOG.warning("the vLLM engine died before its sampler was closed: %s", error)
        self._scratch.cleanup()

    def _check(self, requests: Sequence[SamplingRequest]) -> None:
        check_requests(requests, self._context_tokens)
        for index, request in enumerate(requests):
            if request.temperature < _COLDEST:
                raise SamplerError(
                    f"request {index}: temperature {request.temperature} is below {_COLDEST}, "
                    "which vLLM does not sample at",
                    "raise the temperature, or take execution.engine = hf",
                )

    def _draw(self, requests: Sequence[SamplingRequest]) -> list[list[SampledCompletion]]:
        rows = [(number, seed) for number, r in enumerate(requests) for seed in r.seeds]
        outputs = self._engine.generate(
            [requests[number].prompt_token_ids for number, _ in rows],
            [self._parameters(requests[number], seed) for number, seed in rows],
        )
        drawn: list[list[SampledCompletion]] = [[] for _ in requests]
        for (number, _), output in zip(rows, outputs, strict=True):
            drawn[number].append(
                _completion(output, f"request {number}, sample {len(drawn[number])}")
            )
        return drawn

    def _parameters(self, request: SamplingRequest, seed: int) -> dict[str, Any]:
        return {
            "temperature": request.temperature,
            "seed": seed & _SEED_BITS,
            "max_tokens": request.max_completion_tokens,
            "stop_token_ids": self._eos,
            "ignore_eos": True,  # the ids above are all that end a completion
            "stop": self._stop,
            "detokenize": bool(self._stop),
            "skip_special_tokens": False,
            "logprobs": 0,  # of the drawn token alone
            "flat_logprobs": True,
        }

    def _proven(self) -> SyncProof:
        trainer = self._trainer
        probes = probe_requests(trainer.vocabulary_size, self._context_tokens)

        def proof() -> SyncProof:
            proven = prove(self._draw, trainer.score, probes, trainer.tolerance)
            self._compare_bits()
            return proven

        try:
            return self._lasting(proof, self._restore)
        except SamplerError as error:
            if not self._engine.is_reloaded:
                raise
            _LOG.warning("the engine did not take the weights over, starting anew: %s", error)
            self._restore()
            return self._lasting(proof, self._restore)

    def _compare_bits(self) -> None:
        """Refuse an engine whose weights are not the trainer's bit for bit.

        Log-probs of probes cannot see weights that are a few small steps old.
        """
        weights, ties = _without_ties(self._trainer.weights())
        engine = self._engine
        wrong = set(differing(engine.held_weights(), weights, ties)) - engine.transformed
        if wrong:
            raise SamplerError(
                f"the engine does not hold the trainer's weights: {len(wrong)} of its tensors have "
                f"other bits ({', '.join(sorted(wrong)[:3])}), although log-probs agree",
                PROOF_HINT,
            )

    def _lasting(self, work: Callable[[], Result], restore: Callable[[], None]) -> Result:
        """Do `work`; whenever the engine dies over it, `restore` and do it again."""
        for number in range(1 + _RESTARTS):
            try:
                if number:
                    restore()
                return work()
            except EngineGoneError as error:
                last = error
                if number < _RESTARTS:
                    _LOG.warning("the vLLM engine died and is started anew: %s", error)
        raise SamplerError(
            f"the vLLM engine died {_RESTARTS + 1} times over the same work: {last}",
            "out of memory is the usual cause: lower sampling.rows_per_batch or "
            "execution.engine_memory_share",
        ) from last

    def _restore(self) -> None:
        """A new engine with the weights that the one before had."""
        self._engine.restart(self._engine.directory)
        if self._is_synced:
            weights, _ = _without_ties(self._trainer.weights())
            self._engine.receive(weights.items())

    def _save(self, pairs: Mapping[str, Tensor]) -> None:
        """Write the weights beside the config of the engine's model and the code that it names."""
        from safetensors.torch import save_file

        if not (self._saved / CONFIG).is_file():
            for file in (self._engine.directory / CONFIG, *code_files(self._engine.directory)):
                shutil.copy(file, self._saved)
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in pairs.items()}
        save_file(tensors, self._saved / WEIGHTS, metadata={"format": "pt"})


def _completion(output: Any, name: str) -> SampledCompletion:
    """One `CompletionOutput` of vLLM.

    Raises:
        NonFiniteError: NaN or infinite log-probs.
        SamplerError: It ended for another reason than an end or its budget.
    """
    logprobs = tuple(output.logprobs.logprobs)
    if not all(map(math.isfinite, logprobs)):
        raise NonFiniteError(
            f"{name}: the policy gave NaN or infinite log-probs",
            "the weights hold NaN or overflow in this dtype: go back to the last good checkpoint",
        )
    if output.finish_reason not in tuple(FinishReason) or len(logprobs) != len(output.token_ids):
        raise SamplerError(
            f"{name}: vLLM ended it with {output.finish_reason!r}, {len(output.token_ids)} tokens "
            f"and {len(logprobs)} log-probs; expected stop or length with one log-prob a token"
        )
    return SampledCompletion(tuple(output.token_ids), logprobs, FinishReason(output.finish_reason))


def _without_ties(
    weights: Iterable[tuple[str, Tensor]],
) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Name → tensor, each storage once under its first name, and further names → first name.

    A tied head is the embedding.
    """
    found: dict[str, Tensor] = {}
    ties: dict[str, str] = {}
    first: dict[tuple[int, tuple[int, ...]], str] = {}
    for name, tensor in weights:
        place = (tensor.data_ptr(), tuple(tensor.shape))
        if place in first:
            ties[name] = first[place]
        else:
            first[place] = name
            found[name] = tensor
    return found, ties


def _check_names(weights: Mapping[str, Tensor], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Refuse weights that are not the trainer's, by name and shape.

    The names in a model's files are of no use here: they may lack the prefix of a state dict or
    hold a tied tensor twice.
    """
    missing = sorted(shapes.keys() - weights.keys())
    unknown = sorted(weights.keys() - shapes.keys())
    other = [n for n in shapes if n in weights and tuple(weights[n].shape) != shapes[n]]
    problems = [
        f"{len(names)} {kind} ({', '.join(names[:3])})"
        for kind, names in (("missing", missing), ("unknown", unknown), ("of another shape", other))
        if names
    ]
    if problems:
        raise SamplerError(
            f"weights for the sampler: {'; '.join(problems)}; expected the trainer's {len(shapes)} "
            "tensors",
            "names are those of the model's state dict, tensors are whole, not shards",
        )
