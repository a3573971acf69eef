import pytest
import torch
from objective_loader import load_objective
from values_all import CHECKS

torch.set_num_threads(1)
OBJECTIVE = load_objective()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_value(check):
    check(OBJECTIVE)
