"""A sampler that takes over the trainer's weights when it must, and only then."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from grpo_core.sampling.protocol import Sampler
from grpo_core.types import SampledCompletion, SamplingRequest

if TYPE_CHECKING:
    from torch import Tensor


class SyncedSampler:
    """Syncs before the first `sample` after an update.

    Args:
        inner: Holds the trainer's weights of now.
        weights: Gives the trainer's weights, as `Sampler.sync` takes them.
    """

    def __init__(
        self, inner: Sampler, weights: "Callable[[], Iterable[tuple[str, Tensor]]]"
    ) -> None:
        self.inner = inner
        self._weights = weights
        self._is_stale = False

    def mark_stale(self) -> None:
        """The trainer's weights have changed."""
        self._is_stale = True

    def sample(self, requests: Sequence[SamplingRequest]) -> list[list[SampledCompletion]]:
        """Draw with the trainer's weights of now; see `protocol.Sampler`."""
        if self._is_stale:
            self.inner.sync(self._weights())
            self._is_stale = False
        return self.inner.sample(requests)

    def sleep(self) -> None:
        """Give device memory to the trainer until the next `sample`."""
        self.inner.sleep()

    def close(self) -> None:
        """Let go of the policy."""
        self.inner.close()
