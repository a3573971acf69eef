import json
import os
import shutil
import subprocess
import sys

import pytest
import torch
from model_zoo import build
from safetensors.torch import load_file, save_file
from word_tokenizer import WORDS, word_tokenizer

from grpo_core.errors import ArtifactError, ConfigError
from grpo_core.models.directory import iterate_weights, resolve_directory, weight_files
from grpo_core.models.load import (
    check_vocabulary,
    eos_token_ids,
    load_policy,
    load_tokenizer,
    pad_token_id,
)

_LOAD_WITHIN = """
import resource, sys
from grpo_core.errors import ConfigError
from grpo_core.models.load import load_policy

warm, large, spare = sys.argv[1:]
load_policy(warm, dtype="float32", attention="sdpa", device="cpu")  # imports all that it needs
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + int(spare),) * 2)
try:
    load_policy(large, dtype="float32", attention="sdpa", device="cpu")
except ConfigError as error:
    print(error)
"""


def load(path, **changes):
    return load_policy(
        path, **({"dtype": "float32", "attention": "sdpa", "device": "cpu"} | changes)
    )


@pytest.fixture(scope="session")
def saved(tmp_path_factory):
    directory = tmp_path_factory.mktemp("saved") / "a model"
    build("llama", tie_word_embeddings=False).save_pretrained(directory)
    word_tokenizer().save_pretrained(directory)
    return directory


@pytest.fixture
def broken(saved, tmp_path):
    """A copy to damage."""
    return shutil.copytree(saved, tmp_path / "model")


def edit_config(directory, name="config.json", **changes):
    path = directory / name
    settings = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(settings | changes))


def test_a_saved_model_comes_back_in_eval_mode(saved, capfd):
    model = load(saved)
    want = build("llama", tie_word_embeddings=False).state_dict()
    assert not model.training
    assert all(torch.equal(tensor, want[name]) for name, tensor in model.state_dict().items())
    assert "Loading weights" not in capfd.readouterr().err


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_dtype_and_attention_are_those_asked_for(saved, dtype, attention):
    model = load(saved, dtype=dtype, attention=attention)
    assert {p.dtype for p in model.parameters()} == {getattr(torch, dtype)}
    assert model.config._attn_implementation == attention


def test_tied_embeddings_are_not_missing(tmp_path):
    build("llama", tie_word_embeddings=True).save_pretrained(tmp_path)
    word_tokenizer().save_pretrained(tmp_path)
    model = load(tmp_path)
    assert model.lm_head.weight is model.model.embed_tokens.weight


@pytest.mark.parametrize(
    ("gone", "message"),
    [
        ("config.json", "no config.json"),
        ("model.safetensors", "no weights"),
        ("tokenizer.json", "no tokenizer"),
    ],
)
def test_an_incomplete_directory_says_what_is_missing(broken, gone, message):
    (broken / gone).unlink()
    with pytest.raises(ConfigError, match=rf"{message}[\s\S]*hint: "):
        load(broken)
    if gone != "model.safetensors":
        with pytest.raises(ConfigError, match=message):
            load_tokenizer(broken)


def test_a_lora_adapter_is_named_as_such(broken):
    (broken / "config.json").rename(broken / "adapter_config.json")
    with pytest.raises(ConfigError, match=r"LoRA adapter[\s\S]*merge"):
        load(broken)


@pytest.mark.parametrize("path", ["no/such/dir", "/no/such/dir", "no-such-dir"])
def test_no_such_directory(path):
    with pytest.raises(ConfigError, match="no such directory"):
        resolve_directory(path)


def test_pickled_weights_are_never_opened(broken):
    weights = broken / "model.safetensors"
    weights.unlink()
    (broken / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'touch pwned'\ntR.")
    with pytest.raises(ConfigError, match=r"only pickled weights \(pytorch_model.bin\)"):
        load(broken)


def test_pickled_weights_beside_safetensors_are_ignored(broken):
    (broken / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'touch pwned'\ntR.")
    load(broken)


def test_an_unknown_architecture_is_a_config_error(broken):
    edit_config(broken, model_type="no_such_model")
    with pytest.raises(ConfigError, match=r"no_such_model[\s\S]*hint: .*trust_remote_code"):
        load(broken)


def test_remote_code_is_not_run_unless_trusted(broken):
    edit_config(
        broken,
        model_type="own",
        auto_map={"AutoConfig": "own.Own", "AutoModelForCausalLM": "own.OwnModel"},
    )
    (broken / "own.py").write_text("raise SystemExit('ran')")
    with pytest.raises(ConfigError, match="trust_remote_code"):
        load(broken)


def test_a_config_that_is_no_json(broken):
    (broken / "config.json").write_text('{"model_type": "lla')
    with pytest.raises(ConfigError, match="not JSON"):
        load(broken)


@pytest.mark.parametrize(
    "change",
    [{"num_attention_heads": 3}, {"hidden_size": "wide"}],
    ids=["contradiction", "wrong type"],
)
def test_a_config_that_cannot_be_is_a_config_error(broken, change):
    edit_config(broken, **change)
    with pytest.raises(ConfigError, match=r"config.json[\s\S]*hint: .*correct the named field"):
        load(broken)


def test_missing_and_unexpected_weights_are_errors(broken):
    file = broken / "model.safetensors"
    tensors = load_file(file)
    tensors["model.layers.7.extra.weight"] = tensors.pop("model.layers.1.mlp.up_proj.weight")
    save_file(tensors, file, {"format": "pt"})
    with pytest.raises(
        ArtifactError, match=r"1 missing \(.*up_proj.weight\); 1 unexpected \(.*extra.weight\)"
    ):
        load(broken)


@pytest.mark.parametrize("change", [{"intermediate_size": 40}, {"vocab_size": 99}])
def test_weights_of_another_shape_are_an_error(broken, change):
    edit_config(broken, **change)
    with pytest.raises(ArtifactError, match=r"do not fit config\.json"):
        load(broken)


def test_a_torn_file_is_damaged(broken):
    file = broken / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1000])
    with pytest.raises(ArtifactError, match="damaged safetensors"):
        load(broken)
    with pytest.raises(ArtifactError, match="damaged safetensors"):
        list(iterate_weights(broken))


def test_a_missing_shard_is_named(broken):
    (broken / "model.safetensors").rename(broken / "part-1.safetensors")
    index = {"weight_map": {"a": "part-1.safetensors", "b": "part-2.safetensors"}}
    (broken / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ArtifactError, match=r"1 of 2 shards .*part-2"):
        load(broken)


def test_sharded_weights_load(broken):
    model = load(broken)
    (broken / "model.safetensors").unlink()
    model.save_pretrained(broken, max_shard_size="20KB")
    assert len(weight_files(broken)) > 1
    again = load(broken)
    assert all(
        torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True)
    )


def test_weights_are_yielded_once_each(saved):
    found = dict(iterate_weights(saved))
    want = load(saved).state_dict()
    assert found.keys() == want.keys()
    assert all(torch.equal(found[name], want[name]) for name in want)


@pytest.mark.parametrize(
    ("dtype", "hint"), [("float32", "take model.dtype = bfloat16, a s"), ("bfloat16", "take a s")]
)
def test_not_enough_memory_is_said_with_the_dtype(saved, monkeypatch, dtype, hint):
    def exhausted(*_args, **_kwargs):
        raise torch.OutOfMemoryError("tried to allocate 13 GiB")

    monkeypatch.setattr(torch.nn.Module, "to", exhausted)
    with pytest.raises(ConfigError, match=rf"not enough memory on cpu .*{dtype}") as caught:
        load(saved, dtype=dtype)
    assert caught.value.hint.startswith(hint)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the address space")
@pytest.mark.parametrize("spare_megabytes", [40, 180])
def test_memory_that_runs_out_while_weights_load_is_no_fault_of_the_files(
    saved, tmp_path, spare_megabytes
):
    """The kernel refuses 160 MB at one place or another: the map of the file, or the tensors."""
    build("llama", vocab_size=80_000, hidden_size=256, head_dim=64).save_pretrained(tmp_path)
    word_tokenizer().save_pretrained(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", _LOAD_WITHIN, str(saved), str(tmp_path), str(spare_megabytes << 20)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"},
    )
    assert "not enough memory on cpu for its weights in float32" in done.stdout, done.stderr


def test_a_broken_tokenizer_file_is_a_config_error(broken):
    (broken / "tokenizer.json").write_text('{"model": {"type": "NoSuchModel"}}')
    with pytest.raises(ConfigError, match="tokenizer cannot be read"):
        load_tokenizer(broken)


def test_every_eos_id_counts(broken):
    edit_config(broken, "generation_config.json", eos_token_id=[5, 7])
    edit_config(broken, eos_token_id=9)
    assert eos_token_ids(broken, load_tokenizer(broken)) == {2, 5, 7, 9}


def test_without_generation_config_the_tokenizer_and_config_tell(broken):
    (broken / "generation_config.json").unlink()
    assert eos_token_ids(broken, load_tokenizer(broken)) == {2}


def test_no_eos_anywhere_is_refused(broken):
    edit_config(broken, "generation_config.json", eos_token_id=None)
    edit_config(broken, eos_token_id=None)
    tokenizer = load_tokenizer(broken)
    tokenizer.eos_token = None
    with pytest.raises(ConfigError, match="no end-of-sequence id"):
        eos_token_ids(broken, tokenizer)


def test_the_pad_id_falls_back_to_an_eos_id():
    tokenizer = word_tokenizer()
    assert pad_token_id(tokenizer, frozenset({2})) == 0
    tokenizer.pad_token = None
    assert pad_token_id(tokenizer, frozenset({7, 2})) == 2


def test_a_tokenizer_larger_than_the_model_is_refused():
    check_vocabulary(build("llama"), word_tokenizer())
    small = build("llama", vocab_size=len(WORDS) - 1)
    with pytest.raises(ArtifactError, match=f"{len(WORDS)} tokens .* only {len(WORDS) - 1}"):
        check_vocabulary(small, word_tokenizer())
