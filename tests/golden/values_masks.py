"""Masks, spans and the overlong punishment: values worked out by hand."""

import math
from types import SimpleNamespace

import torch
from objective_values import NAN, close, f64, golden, loss_of, refused

from grpo_core.objective.config import KlConfig, LossConfig, MaskConfig
from grpo_core.rewards import overlong_penalty


@golden
def masks_by_length(o: SimpleNamespace) -> None:
    mask, lengths = o.masks.length_mask, torch.tensor([2, 0, 3])
    assert mask(lengths, 3).int().tolist() == [[1, 1, 0], [0, 0, 0], [1, 1, 1]]
    left = mask(lengths, 3, side="left")
    assert left.int().tolist() == [[0, 1, 1], [0, 0, 0], [1, 1, 1]]
    for bad in ([-1, 2], [1, 4]):
        refused(mask, torch.tensor(bad), 3)
    ids = torch.tensor([[5, 6, 2, 2, 2], [5, 3, 7, 2, 0], [5, 6, 7, 8, 9]])
    ends = o.masks.until_eos_mask(ids, [2, 3])
    assert ends.int().tolist() == [[1, 1, 1, 0, 0], [1, 1, 0, 0, 0], [1, 1, 1, 1, 1]]


@golden
def truncation_is_masked_after_grouping(o: SimpleNamespace) -> None:
    # Prompts A and B, rewards [1, 0] each; A1 and B0 are truncated: no group is re-formed.
    advantages = o.advantages.group_advantages([[1.0, 0.0], [1.0, 0.0]], std="none").reshape(-1)
    generated = torch.ones((4, 2), dtype=torch.bool)
    truncated = torch.tensor([False, True, True, False])
    drop = o.masks.loss_masks(generated, MaskConfig(truncated="drop"), truncated=truncated)
    assert drop.completion_mask.int().tolist() == [[1, 1], [0, 0], [0, 0], [1, 1]]
    close(advantages, [0.5, -0.5, 0.5, -0.5])
    keep = o.masks.loss_masks(generated, MaskConfig(), truncated=truncated)
    assert bool(keep.completion_mask.all())
    live = o.masks.loss_masks(generated, MaskConfig(), live_rows=~truncated).completion_mask
    assert live.int().tolist() == [[1, 1], [0, 0], [0, 0], [1, 1]]


@golden
def spans_without_loss(o: SimpleNamespace) -> None:
    ids = torch.tensor([[7, 1, 2, 1, 2, 1, 2, 9], [5, 5, 5, 5, 5, 0, 0, 0]])
    generated = torch.tensor([[1] * 8, [1] * 5 + [0] * 3]) == 1
    marked = o.spans.repeated_ngram_mask(ids, generated, ngram_tokens=2, free_count=1)
    assert marked.int().tolist() == [[0, 0, 0, 1, 1, 1, 1, 0], [0, 0, 1, 1, 0, 0, 0, 0]]
    loose = o.spans.repeated_ngram_mask(ids, generated, ngram_tokens=2, free_count=2)
    assert loose.int().tolist() == [[0, 0, 0, 0, 0, 1, 1, 0], [0] * 8]
    left = o.spans.repeated_ngram_mask(
        ids[1:].flip(1), generated[1:].flip(1), ngram_tokens=2, free_count=1
    )
    assert left.int().tolist() == [[0, 0, 0, 0, 0, 1, 1, 0]]


@golden
def spans_of_text(o: SimpleNamespace) -> None:
    pieces = [["So", " the", " answer", " is", ":", " 4"], ["x", "\ny", "", "z"]]
    generated = torch.tensor([[0, 1, 1, 1, 1, 1, 1], [0, 1, 1, 1, 1, 0, 0]]) == 1
    inside = o.spans.template_span_mask(pieces, generated, [" the answer is", "", "is: "])
    assert inside.int().tolist() == [[0, 0, 1, 1, 1, 1, 0], [0] * 7]
    ends = o.spans.step_end_mask(pieces, generated)
    assert ends.int().tolist() == [[0, 0, 0, 0, 0, 0, 1], [0, 0, 1, 0, 1, 0, 0]]
    both = MaskConfig(repeat_ngram_tokens=2, repeat_free_count=1, template_spans=("So",))
    ids = torch.tensor([[0, 1, 2, 1, 2, 8, 9], [0, 1, 2, 3, 4, 0, 0]])
    masks = o.masks.loss_masks(generated, both, token_ids=ids, pieces=pieces)
    expected = [[0, 0, 1, 0, 0, 1, 1], [0, 1, 1, 1, 1, 0, 0]]
    assert masks.completion_mask.int().tolist() == expected
    assert masks.sample_mask.int().tolist() == [[1, 0, 1, 0, 0, 1, 1], [1] * 7]


@golden
def padding_is_not_counted(o: SimpleNamespace) -> None:
    advantages = [[-1.0, -1, NAN, NAN], [-0.5, -0.5, -0.5, -0.5]]
    mask = [[1, 1, 0, 0], [1, 1, 1, 1]]
    zeros = [[0.0, 0, NAN, NAN], [0.0] * 4]
    loss, gradient, *_ = loss_of(o, LossConfig(method="dapo"), zeros, advantages, mask)
    close(loss, 4 / 6)
    close(gradient, [[1 / 6, 1 / 6, 0, 0], [0.5 / 6] * 4])


@golden
def masked_infinities_do_not_leak(o: SimpleNamespace) -> None:
    for method in ("dapo", "grpo", "gspo", "gspo_token", "cispo"):
        for junk in (1000.0, NAN, float("inf"), float("-inf")):
            loss, gradient, metrics, _ = loss_of(
                o,
                LossConfig(method=method, sampler_correction="token_truncated"),
                [[0.0, junk]],
                [[-0.5, NAN]],
                [[1, 0]],
                kl=KlConfig(place="loss", beta=1.0),
                ref_logprobs=f64([[-1.0, NAN]]),
                sampling_logprobs=f64([[-1.0, NAN]]),
                entropy=f64([[0.7, NAN]]),
            )
            close(loss, 0.5 * (-1.0 if method == "cispo" else 1.0))
            close(gradient, [[0.5, 0.0]])
            close(metrics["policy_entropy_nats"], 0.7)
            assert all(math.isfinite(value) for value in metrics.values())


@golden
def an_empty_step_is_zero(o: SimpleNamespace) -> None:
    for method in ("dapo", "grpo", "gspo", "gspo_token", "cispo"):
        loss, gradient, metrics, _ = loss_of(
            o, LossConfig(method=method), [[0.1, 0.2], [NAN, 0.0]], [1.0, 1.0], [[0, 0], [0, 0]]
        )
        close(loss, 0.0)
        close(gradient, [[0.0, 0.0], [0.0, 0.0]])
        assert metrics["clip_fraction"] == 0.0
        assert metrics["importance_ratio_max"] == 0.0


@golden
def overlong_ramp(o: SimpleNamespace) -> None:
    for limit, buffer, lengths, expected in (
        (100, 20, (79, 80, 81, 90, 99, 100, 101, 140), (0, 0, -0.05, -0.5, -0.95, -1, -1, -1)),
        (256, 64, (192, 193, 224, 256, 257), (0, -0.015625, -0.5, -1, -1)),
        (20480, 4096, (16384, 16385, 20479, 20481), (0, -0.000244140625, -0.999755859375, -1)),
        (100, 0, (99, 100, 101), (0, 0, -1)),
        (100, 100, (0, 50, 100), (0, -0.5, -1)),
    ):
        close([overlong_penalty(n, max_length=limit, buffer=buffer) for n in lengths], expected)
