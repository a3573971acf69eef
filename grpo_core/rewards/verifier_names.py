"""Names of the product's own verifiers."""

from typing import Final

MATH: Final = "math"
CODE: Final = "code"
BUILT_IN: Final = (MATH, CODE)
