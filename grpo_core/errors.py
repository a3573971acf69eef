"""Every error that the product raises on purpose.

```
GrpoError                         what failed, where, expected, got; last line "hint: ..."
├── ConfigError(ValueError)           a configuration that cannot mean what it says
├── DataContractError(ValueError)     rows or files that break their contract
├── StageInputError(LookupError)      a stage whose inputs do not exist yet
├── ArtifactError(RuntimeError)       an artefact that is missing, damaged or foreign
├── CacheStaleError(ArtifactError)    a cache made by another model, tokenizer or dtype
├── FileUnreadableError(RuntimeError) a file that cannot be read now, damaged or not
├── FileUnwritableError(RuntimeError) a file that cannot be written where it lies
├── RunBusyError(RuntimeError)        a run name or key that somebody else holds
├── SamplerError(RuntimeError)        a sampler that cannot serve a request
├── EngineGoneError(SamplerError)     its engine died: tried again
├── RunStoppedError(RuntimeError)     a run that was asked to stop and did
├── StalledError(RuntimeError)        a stage that finishes no unit any more
├── OutOfMemoryError(RuntimeError)    work that does not fit, in the smallest portions either
├── DiskFullError(RuntimeError)       a file that could not be written
├── NonFiniteError(ArithmeticError)   NaN or infinity in a loss, gradient or log-prob
├── AuditFailedError(RuntimeError)    a blocking audit that found rows
└── ServiceError(RuntimeError)        the local Prefect server or runner
```

Errors are picklable: they are built from their message and hint alone.
"""


class GrpoError(Exception):
    """The root of the tree; also carries a hint on what to do next.

    Args:
        message: What failed, where (row, field, file), what was expected and what came.
        hint: What to do about it, printed as the last line.
    """

    is_transient = False
    """Whether the same work may succeed when it is tried again."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint
        self._has_place = False

    def add_place(self, place: str) -> None:
        """Say where it happened, in front of the message; the innermost place is kept."""
        if not self._has_place:
            self._has_place = True
            self.message = f"{place}: {self.message}"
            self.args = (self.message, self.hint)

    def __str__(self) -> str:
        return f"{self.message}\nhint: {self.hint}" if self.hint else self.message


class ConfigError(GrpoError, ValueError):
    """A configuration that is unknown, out of bounds or contradicts itself."""


class DataContractError(GrpoError, ValueError):
    """Rows or files that do not keep to their schema."""


class StageInputError(GrpoError, LookupError):
    """A stage was started before the stages that make its inputs."""


class ArtifactError(GrpoError, RuntimeError):
    """An artefact that is missing, torn, damaged or not the one its manifest names."""


class CacheStaleError(ArtifactError):
    """A cache whose fingerprint is not that of the model asking for it."""


class FileUnreadableError(GrpoError, RuntimeError):
    """The system did not let a file be read, which says nothing about its bytes."""


class FileUnwritableError(GrpoError, RuntimeError):
    """A read-only file system or missing permission did not let a file be written."""


class RunBusyError(GrpoError, RuntimeError):
    """Another process holds this run name or is computing this key."""


class SamplerError(GrpoError, RuntimeError):
    """A sampler cannot serve the request: context too short, unknown token."""


class EngineGoneError(SamplerError):
    """The sampling engine died under a request that it could serve; trying again may help."""

    is_transient = True


class RunStoppedError(GrpoError, RuntimeError):
    """The run was asked to stop and did, after a whole unit of work."""


class StalledError(GrpoError, RuntimeError):
    """No unit of work was finished for longer than the configuration allows."""


class OutOfMemoryError(GrpoError, RuntimeError):
    """Device or host memory does not hold the work, also in the smallest portions allowed."""


class DiskFullError(GrpoError, RuntimeError):
    """A file could not be written because its disk is full."""


class NonFiniteError(GrpoError, ArithmeticError):
    """NaN or infinity where training must stop; the last good checkpoint stays."""


class AuditFailedError(GrpoError, RuntimeError):
    """A blocking audit found rows."""


class ServiceError(GrpoError, RuntimeError):
    """The local Prefect server or runner could not be started, reached or stopped."""
