"""Log-probs, and what presets resolve to: values worked out by hand."""

import math
from types import SimpleNamespace

import torch
from objective_values import close, f64, golden, refused

from grpo_core.objective.config import LossConfig
from grpo_core.objective.presets import resolve_loss


@golden
def logprobs_of_three_tokens(o: SimpleNamespace) -> None:
    p = f64([0.6, 0.3, 0.1])
    hidden = f64([[1.0]]).requires_grad_()
    weight = p.log().reshape(3, 1).requires_grad_()
    for chosen in range(3):
        logprobs, entropy = o.logprobs.selective_logprobs(hidden, weight, torch.tensor([chosen]))
        close(logprobs.detach(), [math.log(p[chosen])])
        close(entropy, [0.8979457248567798])
        slopes = torch.autograd.grad(logprobs.sum(), (hidden, weight))
        close(slopes[0], [[math.log(p[chosen]) + 0.8979457248567798]])
        expected = [(1.0 if v == chosen else 0.0) - float(p[v]) for v in range(3)]
        close(slopes[1][:, 0], expected)


@golden
def logprobs_of_large_logits(o: SimpleNamespace) -> None:
    hidden = f64([[1000.0]]).requires_grad_()
    weight = f64([[1.0], [0.0], [1.0]])
    run = o.logprobs.selective_logprobs
    logprobs, entropy = run(hidden, weight, torch.tensor([1]), temperature=2.0)
    close(logprobs.detach(), [-500.0 - math.log(2.0)])
    close(entropy, [math.log(2.0)])
    close(torch.autograd.grad(logprobs.sum(), hidden)[0], [[-0.5]])
    cut = o.logprobs.HeadSpec(bias=f64([0.0, float("-inf"), 0.0]))
    logprobs, entropy = run(hidden.detach(), weight, torch.tensor([2]), head=cut)
    close(logprobs, [-math.log(2.0)])
    close(entropy, [math.log(2.0)])


@golden
def logprobs_in_blocks_of_the_vocabulary(o: SimpleNamespace) -> None:
    # Four tokens with probabilities 0.4, 0.3, 0.2, 0.1, projected three columns at a time.
    p = f64([0.4, 0.3, 0.2, 0.1])
    weight = p.log().reshape(4, 1)
    bias = torch.zeros(4, dtype=torch.float64)
    head = o.projection.Head(weight, bias, 1.0, None)
    plan = o.projection.ProjectionPlan(2, 3, 9, torch.float64)
    hidden, ids = f64([[1.0], [1.0], [1.0]]), torch.tensor([3, 0, 2])
    inverse = f64([1.0, 1.0, 2.0])
    rows = o.projection.forward_rows(hidden, head, ids, inverse, plan, True)
    squares = p.square() / p.square().sum()
    close(rows.logprobs, [math.log(0.1), math.log(0.4), float(squares[2].log())])
    entropy = float(-(p * p.log()).sum())
    close(rows.entropy, [entropy] * 3)
    close(rows.tempered_entropy[2], -(squares * squares.log()).sum())
    pull = 2.0 * (p[2].log() - (squares * p.log()).sum())
    expected = [math.log(0.1) + entropy, math.log(0.4) + entropy, float(pull)]
    close(rows.row_gradient[:, 0], expected)
    incoming = f64([1.0, 10.0, 0.5])
    to_weight, to_bias = o.projection.backward_head(
        hidden, head, ids, inverse, rows.offset, rows.log_sum, incoming, plan
    )
    hot = torch.eye(4, dtype=torch.float64)
    total = (hot[3] - p) + 10.0 * (hot[0] - p) + 0.5 * 2.0 * (hot[2] - squares)
    close(to_weight[:, 0], total)
    close(to_bias, total)
    half = o.projection.Head(weight.to(torch.float32), None, 1.0, None)
    again = o.projection.forward_rows(hidden, half, ids, inverse, plan, True)
    close(again.row_gradient[:, 0], expected, 1e-6)
    to_half, nothing = o.projection.backward_head(
        hidden, half, ids, inverse, again.offset, again.log_sum, incoming, plan
    )
    assert nothing is None
    close(to_half[:, 0], total, 1e-6)


@golden
def ids_outside_the_vocabulary_are_refused(o: SimpleNamespace) -> None:
    hidden, weight = f64([[1.0], [1.0]]), f64([[0.1], [0.2], [0.3]])
    for ids in ([0, 3], [-1, 2]):
        refused(o.logprobs.selective_logprobs, hidden, weight, torch.tensor(ids))
    refused(o.logprobs.selective_logprobs, hidden, weight, torch.tensor([0, 1]), chunk_tokens=0)
    refused(o.logprobs.selective_logprobs, hidden, weight, torch.tensor([0, 1]), temperature=0.0)
    o.logprobs.selective_logprobs(hidden, weight, torch.tensor([0, 2]))


@golden
def logprobs_at_a_temperature(o: SimpleNamespace) -> None:
    # At temperature 2 probabilities are proportional to their roots: sqrt(0.64), sqrt(0.36).
    p = f64([0.64, 0.36])
    q = f64([0.8, 0.6]) / 1.4
    hidden = f64([[1.0], [1.0]]).requires_grad_()
    weight = p.log().reshape(2, 1).requires_grad_()
    result = o.logprobs.token_logprobs(
        hidden, weight, torch.tensor([0, 1]), temperature=torch.tensor([2.0, 1.0]), chunk_tokens=1
    )
    close(result.logprobs.detach(), [float(q[0].log()), float(p[1].log())])
    entropy = float(-(p * p.log()).sum())
    close(result.policy_entropy_nats, [entropy, entropy])
    close(result.sampling_entropy_nats, [float(-(q * q.log()).sum()), entropy])
    both = o.logprobs.token_logprobs(hidden, weight, torch.tensor([0, 1]), temperature=2.0)
    close(both.logprobs.detach(), q.log())
    slopes = torch.autograd.grad(result.logprobs[0], (hidden, weight))
    close(slopes[0], [[float(p[0].log() - (q * p.log()).sum()) / 2.0], [0.0]])
    close(slopes[1][:, 0], [float(1 - q[0]) / 2.0, -float(q[1]) / 2.0])


@golden
def logprobs_of_a_capped_head(o: SimpleNamespace) -> None:
    head = o.logprobs.HeadSpec(scale=0.5, softcap=2.0, bias=f64([0.1, -0.1]).requires_grad_())
    hidden, weight = f64([[1.0, 2.0]]).requires_grad_(), f64([[0.3, 0.4], [-0.2, 1.0]])
    weight.requires_grad_()
    result = o.logprobs.token_logprobs(hidden, weight, torch.tensor([1]), head=head)
    # scale x products 0.55 and 0.9; bias: 0.65 and 0.8; capped 2 tanh(x / 2).
    capped = [2 * math.tanh(0.325), 2 * math.tanh(0.4)]
    total = math.exp(capped[0]) + math.exp(capped[1])
    close(result.logprobs.detach(), [capped[1] - math.log(total)])
    p0 = math.exp(capped[0]) / total
    pull = [-p0 * (1 - math.tanh(0.325) ** 2), p0 * (1 - math.tanh(0.4) ** 2)]
    slopes = torch.autograd.grad(result.logprobs.sum(), (hidden, weight, head.bias))
    close(slopes[0][0], [0.5 * (pull[0] * 0.3 - pull[1] * 0.2), 0.5 * (pull[0] * 0.4 + pull[1])])
    close(slopes[1], [[0.5 * pull[0], pull[0]], [0.5 * pull[1], pull[1]]])
    close(slopes[2], pull)


@golden
def resolved_presets_meet_their_papers(o: SimpleNamespace) -> None:
    bounds = {
        name: (loss.ratio, loss.clip_low, loss.clip_high, loss.ratio_cap, loss.aggregation)
        for name in ("grpo", "dapo", "dr_grpo", "gspo", "gspo_token", "cispo")
        for loss in [resolve_loss(LossConfig(method=name), longest_completion_tokens=8)]
    }
    assert bounds == {
        "grpo": ("token", 0.2, 0.2, None, "sequence_mean"),
        "dapo": ("token", 0.2, 0.28, None, "token_mean"),
        "dr_grpo": ("token", 0.2, 0.2, None, "constant_length"),
        "gspo": ("sequence", 3e-4, 4e-4, None, "sequence_mean"),
        "gspo_token": ("sequence_token", 3e-4, 4e-4, None, "sequence_mean"),
        "cispo": ("token", None, None, 5.0, "token_mean"),
    }
