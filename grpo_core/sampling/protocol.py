"""What prefilter, training and evaluation ask of a sampler."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from grpo_core.types import SampledCompletion, SamplingRequest

if TYPE_CHECKING:
    from torch import Tensor


class Sampler(Protocol):
    """Draws completions from one policy.

    The contract, tested by one suite for every engine:

    * token ids and log-probs are aligned, and the ids are those that were drawn: no text is
      re-tokenised; the end-of-sequence id is the last id of a completion that drew one;
    * log-probs are nats at the request's temperature over the full vocabulary, fp32: no top-p, no
      top-k, no raw logits;
    * a row depends on its prompt, seed, temperature, budget and the policy alone, not on its
      neighbours in the batch (up to rounding of the forward pass), so equal seeds give equal rows;
    * a prompt whose length plus budget exceeds the context is refused by a `SamplerError` before
      anything is drawn.
    """

    def sample(self, requests: Sequence[SamplingRequest]) -> list[list[SampledCompletion]]:
        """Draw the completions of each request, in the order of its seeds.

        Args:
            requests: Rendered prompts with seeds, temperature and budget.

        Returns:
            One list per request, one completion per seed.

        Raises:
            SamplerError: A request that the policy cannot serve, or an engine that is gone.
            NonFiniteError: The policy gave NaN log-probs; the message names the request.
        """
        ...

    def sync(self, weights: "Iterable[tuple[str, Tensor]]") -> None:
        """Take over the trainer's weights before the next `sample`.

        The trainer calls it after every optimiser step that a later `sample` must see. The form is
        the one that engines load from, so one call fits all of them: pairs of a parameter's name as
        in the model's own state dict and its full (gathered) tensor. A generator is best: nothing
        needs to exist twice. For a saved directory pass `models.load.iterate_weights(directory)`.

        A sampler that shares the trainer's module has the weights already: it consumes nothing.

        Args:
            weights: (name, tensor) of every parameter, each once.

        Raises:
            SamplerError: A name or shape that the sampler's policy does not have, or one missing.
        """
        ...

    def sleep(self) -> None:
        """Give device memory to the trainer until the next `sample` or `sync`, which wake it."""
        ...

    def close(self) -> None:
        """Let go of the policy; nothing is sampled afterwards."""
        ...
