"""What only GPUs run, as far as a CPU can try it: against vLLM's own signatures and its encoder."""

import os
from unittest.mock import Mock, create_autospec

import pytest
import torch
import vllm
from contract import EOS, random_policy, request
from random_engine import SETTINGS, trainer_side
from torch.multiprocessing.reductions import rebuild_cuda_tensor
from vllm.config.weight_transfer import WeightTransferConfig
from vllm.distributed.weight_transfer import WeightTransferTrainerFactory
from vllm.distributed.weight_transfer.base import VLLMWeightSyncClient
from vllm.engine.arg_utils import EngineArgs
from vllm.v1.serial_utils import MsgpackDecoder

from grpo_core.sampling.vllm import VllmSampler
from grpo_core.sampling.vllm_engine import VllmEngine
from grpo_core.sampling.vllm_start import EngineSettings, arguments, environment
from grpo_core.sampling.vllm_transfer import WeightTransfer, _Client, _Pairs

PICKLES = "VLLM_ALLOW_INSECURE_SERIALIZATION"
HANDLE = {"GPU-0": (rebuild_cuda_tensor, torch.float32)}


def on_gpu(placement="colocate", dtype="bfloat16", gpus=1) -> EngineSettings:
    return EngineSettings(
        dtype, 256, 8, is_on_gpu=True, placement=placement, tensor_parallel_size=gpus
    )


class LikeColocated(EngineSettings):
    """On a CPU, but with the environment of an engine that is handed CUDA IPC handles."""

    is_colocated = True


@pytest.mark.parametrize(("placement", "backend"), [("colocate", "ipc"), ("split", "nccl")])
def test_vllm_takes_the_arguments_of_an_engine_on_gpus(tmp_path, placement, backend):
    given = arguments(tmp_path, on_gpu(placement))
    given.pop("use_tqdm_on_load")  # of `LLM`, which hands the rest on
    engine = EngineArgs(**given)
    assert engine.logprobs_mode == "processed_logprobs"
    assert engine.enable_sleep_mode == (placement == "colocate")
    assert WeightTransferConfig(**given["weight_transfer_config"]).backend == backend
    assert engine.enable_prefix_caching


def test_attention_in_fp32_does_not_multiply_in_tf32(tmp_path):
    for dtype, want in (("float32", "ieee"), ("bfloat16", None)):
        with environment(on_gpu(dtype=dtype), tmp_path):
            assert os.environ.get("TRITON_F32_DEFAULT") == want
    with environment(SETTINGS, tmp_path):
        assert "TRITON_F32_DEFAULT" not in os.environ


def test_an_engine_answers_while_handles_may_be_pickled(tmp_path):
    """Its answers then come in another form, which must be allowed on this side too."""
    model = random_policy(seed=41)
    model.save_pretrained(tmp_path)
    settings = LikeColocated("float32", SETTINGS.context_tokens, max_rows=64, threads=1)
    engine = VllmEngine(tmp_path, settings)
    try:
        engine.load(tmp_path)
        assert engine.held_weights()
        core = engine._llm.llm_engine.engine_core
        arrived = MsgpackDecoder().decode(core.encoder.encode({"ipc_handles": [HANDLE]}))
        assert arrived == {"ipc_handles": [{"GPU-0": [rebuild_cuda_tensor, torch.float32]}]}
        sampler = VllmSampler(
            engine, trainer_side(model), eos_token_ids=EOS, context_tokens=settings.context_tokens
        )
        assert len(sampler.sample([request(5)])[0]) == len(request(5).seeds)
    finally:
        engine.close()
    assert PICKLES not in os.environ


def recording_llm():
    """vLLM's `LLM` as far as signatures go; remembers its calls."""
    return create_autospec(vllm.LLM, instance=True)


def calls(llm) -> list[str]:
    return [name for name, _, _ in llm.method_calls]


def test_weights_go_through_vllms_ipc_trainer(monkeypatch):
    """Without a GPU its handles are those of shared memory."""
    monkeypatch.setattr(torch.accelerator, "current_device_index", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: type("GPU", (), {"uuid": 7}))
    for name in ("synchronize", "ipc_collect"):
        monkeypatch.setattr(torch.cuda, name, lambda: None)
    llm, weights = recording_llm(), {"a": torch.ones(2, 3), "b": torch.ones(4).bfloat16()}
    transfer = WeightTransfer(llm, on_gpu())
    for _ in range(2):
        transfer.send(weights.items())
    round_trip = ["start_weight_update", "update_weights", "finish_weight_update"]
    assert calls(llm) == ["init_weight_transfer_engine", *round_trip, *round_trip]
    sent = llm.update_weights.call_args.args[0]["update_info"]
    assert sent["names"] == ["a", "b"]
    assert sent["dtype_names"] == ["float32", "bfloat16"]
    assert sent["shapes"] == [[2, 3], [4]]
    assert len(sent["ipc_handles"]) == 2
    assert "init_info" in llm.init_weight_transfer_engine.call_args.args[0]
    assert transfer._source.pairs == [], "tensors must not be kept alive between two sends"


def test_a_split_engine_is_met_over_nccl_by_the_trainer_and_every_worker(monkeypatch):
    asked = Mock()
    monkeypatch.setattr(WeightTransferTrainerFactory, "trainer_init", asked)
    transfer = WeightTransfer(recording_llm(), on_gpu("split", gpus=3))
    (info,), rest = asked.call_args
    assert (info.world_size, info.rank, info.is_sender) == (4, 0, True)
    assert (info.master_address, info.backend) == ("127.0.0.1", "nccl")
    assert 1024 <= info.master_port < 65536
    assert isinstance(rest["client"], VLLMWeightSyncClient)
    transfer.close()
    asked.return_value.shutdown.assert_called_once_with()


def test_the_pairs_of_a_transfer_can_be_read_more_than_once():
    source = _Pairs()
    source.pairs = [("a", torch.ones(2, 3))]
    for _ in range(2):
        assert [name for name, _ in source] == ["a"]
    (meta,) = source.metadata()
    assert (meta.name, meta.dtype, tuple(meta.shape)) == ("a", torch.float32, (2, 3))
    assert isinstance(_Client(recording_llm()), VLLMWeightSyncClient)


def test_the_trainers_cached_memory_is_given_back_before_the_engine_wakes(monkeypatch):
    engine = object.__new__(VllmEngine)
    engine.settings, engine.is_asleep, engine._failure = on_gpu(), False, ""
    engine._llm = llm = recording_llm()
    llm.attach_mock(Mock(), "transfer")
    llm.attach_mock(Mock(), "empty_cache")
    engine._transfer = llm.transfer
    monkeypatch.setattr(torch.cuda, "empty_cache", llm.empty_cache)
    awake = ["empty_cache", "wake_up"]
    for take, want in (
        (engine.wake, awake),
        (lambda: engine.receive([]), [*awake, "transfer.send", *awake, "reset_prefix_cache"]),
    ):
        engine.sleep()
        assert engine.is_asleep
        llm.reset_mock()
        take()
        assert calls(llm) == want
        assert not engine.is_asleep
    assert llm.wake_up.call_args_list[0].kwargs == {"tags": ["weights"]}
