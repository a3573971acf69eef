"""Where reference log-probs came from: scored just now, or by whom and when before."""

from dataclasses import dataclass
from enum import StrEnum


class RefOrigin(StrEnum):
    """How a row of a step got its reference log-probs; all but `scored` were spared a pass."""

    SCORED = "scored"
    """The cache had none."""
    PREFILTER = "prefilter"
    """Stage ref-logp scored a persisted prefilter sample."""
    EPOCH = "epoch"
    """An earlier epoch over the same rollout batch used the row already."""
    REPEAT = "repeat"
    """The same tokens were sampled before in this attempt."""
    RESUME = "resume"
    """An attempt that was killed scored it for the same artefact."""
    GENERATION = "generation"
    """An earlier generation of the same artefact, which is made again by force."""
    RERUN = "rerun"
    """An earlier attempt of this run, under other settings."""
    SWEEP = "sweep"
    """Another run."""
    UNKNOWN = "unknown"
    """Stored without its writer."""


@dataclass(frozen=True, slots=True)
class Scorer:
    """Who asks for reference log-probs, and who is remembered for those that get scored.

    Args:
        run: Run name.
        attempt: Attempt of the run.
        label: Node of the DAG.
        key: Key of the artefact that is being made.
        is_forced: It is made again although it was there.
    """

    run: str
    attempt: int
    label: str
    key: str
    is_forced: bool = False

    @property
    def signature(self) -> str:
        """What the cache keeps beside each row."""
        return f"{self.run} {self.attempt} {self.label} {self.key[:12]}"

    def origin_of(self, signature: str) -> RefOrigin:
        """Origin of a cached row, by the signature of who scored it."""
        if signature.count(" ") != 3:
            return RefOrigin.UNKNOWN
        run, attempt, label, key = signature.split(" ")
        if label == "ref_logp" and self.label != label:
            return RefOrigin.PREFILTER
        if run == self.run and attempt == str(self.attempt):
            return RefOrigin.REPEAT
        if key == self.key[:12]:
            return RefOrigin.GENERATION if self.is_forced else RefOrigin.RESUME
        return RefOrigin.RERUN if run == self.run else RefOrigin.SWEEP
