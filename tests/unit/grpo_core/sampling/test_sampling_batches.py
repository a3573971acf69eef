import pytest
import torch

from grpo_core.errors import SamplerError
from grpo_core.sampling.batches import Share, check_requests, left_pad, plan_batches
from grpo_core.types import SamplingRequest


def requests(*shapes):
    return [SamplingRequest((3,) * length, tuple(range(n)), 1.0, 8) for length, n in shapes]


def test_prompts_of_similar_length_share_a_batch_and_no_request_is_torn():
    batches = plan_batches(requests((9, 4), (2, 4), (8, 4), (3, 4)), batch_rows=10)
    assert batches == [[Share(1, 0, 4), Share(3, 0, 4)], [Share(2, 0, 4), Share(0, 0, 4)]]


def test_a_request_larger_than_a_batch_is_split():
    batches = plan_batches(requests((2, 1), (3, 7)), batch_rows=3)
    assert batches == [
        [Share(0, 0, 1)],
        [Share(1, 0, 3)],
        [Share(1, 3, 6)],
        [Share(1, 6, 7)],
    ]


@pytest.mark.parametrize("batch_rows", [1, 2, 5, 64])
def test_every_sample_is_in_exactly_one_batch(batch_rows):
    asked = requests((4, 3), (1, 0), (9, 8), (4, 1), (2, 5))
    batches = plan_batches(asked, batch_rows)
    rows = [(s.request, i) for batch in batches for s in batch for i in range(s.start, s.stop)]
    assert sorted(rows) == [(r, i) for r, n in enumerate((3, 0, 8, 1, 5)) for i in range(n)]
    assert max(sum(s.stop - s.start for s in batch) for batch in batches) <= batch_rows


def test_left_padding_lines_the_ends_up():
    ids, mask = left_pad([(5, 6), (7, 8, 9)], 0, torch.device("cpu"))
    assert ids.tolist() == [[0, 5, 6], [7, 8, 9]]
    assert mask.tolist() == [[False, True, True], [True, True, True]]


def test_equal_lengths_need_no_mask():
    assert left_pad([(5, 6), (7, 8)], 0, torch.device("cpu"))[1] is None


def test_the_refusal_names_request_and_lengths():
    with pytest.raises(
        SamplerError, match=r"request 1: prompt of 600 tokens .* 512 .* 1112 exceeds .* 1024"
    ):
        check_requests(
            [
                SamplingRequest((1,) * 512, (0,), 1.0, 512),
                SamplingRequest((1,) * 600, (0,), 1.0, 512),
            ],
            1024,
        )
