"""Sizes in words."""

import pytest

from flows.sentences import size


@pytest.mark.parametrize(
    ("num_bytes", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 KB"),
        (23_449, "23.4 KB"),
        (999_949, "999.9 KB"),
        (999_950, "1.0 MB"),
        (5_000_000_000, "5.0 GB"),
        (1_230_000_000_000, "1.2 TB"),
        (1_230_000_000_000_000, "1230.0 TB"),
    ],
)
def test_a_size_has_the_unit_that_fits(num_bytes: int, text: str) -> None:
    assert size(num_bytes) == text
