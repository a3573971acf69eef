import shlex
from pathlib import Path

import pytest

from flows.request import command_of, default_run_name, make_request
from grpo_core.errors import ConfigError
from grpo_core.types import StageName


def test_a_request_carries_only_what_was_asked_for() -> None:
    request = make_request("full", "tiny", None, "", [], [])
    assert request.parameters() == {"preset": "tiny", "run": "tiny"}
    assert request.stages == tuple(StageName)


def test_a_stage_with_everything() -> None:
    request = make_request(
        "train", "tiny", Path("mine.toml"), "demo", ["train.group_size=4"], ["train"]
    )
    parameters = request.parameters()
    assert parameters.pop("config_file") == str(Path("mine.toml").resolve())
    assert parameters == {
        "preset": "tiny",
        "run": "demo",
        "overrides": ["train.group_size=4"],
        "force": ["train"],
    }
    assert request.stages == (StageName.TRAIN,)
    assert request.command() == (
        "grpo run train --config mine.toml --run demo --set train.group_size=4 --force train"
    )
    assert "--force" not in request.command([StageName.TRAIN])


def test_the_command_to_go_on_quotes_what_a_shell_would_bend() -> None:
    request = make_request("full", "tiny", None, "", ["prompt.system=be brief"], [])
    assert request.command() == "grpo run full --set 'prompt.system=be brief'"


def test_quotes_and_spaces_arrive_as_they_were_given() -> None:
    override = """prompts.system=say "don't" & stop"""
    request = make_request("train", "tiny", Path("my files/a.toml"), "", [override], [])
    words = ["grpo", "run", "train", "--config", "my files/a.toml", "--set", override]
    assert shlex.split(request.command()) == words


@pytest.mark.parametrize(
    ("stages", "finished", "target"),
    [
        (None, [], "full"),
        (["audit", *list(StageName)[:-1]], [StageName.INGEST], "full"),
        (["ingest", "prefilter"], [], "ingest"),
        (["prefilter", "ingest"], [], "ingest"),
        (["ingest", "prefilter"], [StageName.INGEST], "prefilter"),
        (["ingest", "prefilter"], [StageName.INGEST, StageName.PREFILTER], "prefilter"),
        (["train"], [], "train"),
    ],
)
def test_a_flow_run_goes_on_where_it_ended(
    stages: list[str] | None, finished: list[StageName], target: str
) -> None:
    given = {"run": "x"} | ({"stages": stages} if stages else {})
    assert command_of(given, finished) == f"grpo run {target} --run x"


@pytest.mark.parametrize(
    ("stages", "finished", "target"),
    [
        (None, [StageName.INGEST], "full --run x --force prefilter --force train"),
        (None, [StageName.INGEST, StageName.PREFILTER], "full --run x --force train"),
        (["prefilter", "train"], [], "prefilter --run x --force prefilter"),
        (["prefilter", "train"], [StageName.PREFILTER], "train --run x --force train"),
        (["prefilter", "train"], [StageName.PREFILTER, StageName.TRAIN], "train --run x"),
        (["ingest"], [], "ingest --run x"),
    ],
)
def test_a_stage_that_was_forced_and_is_not_finished_is_forced_again(
    stages: list[str] | None, finished: list[StageName], target: str
) -> None:
    given = {"run": "x", "force": ["prefilter", "train"]} | ({"stages": stages} if stages else {})
    assert command_of(given, finished) == f"grpo run {target}"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("ingst", "tiny", None, "", [], []), "did you mean ingest"),
        (("full", "tiny", None, "", [], ["trian"]), "did you mean train"),
        (("full", "tiny", None, "../x", [], []), "is not a run name"),
    ],
)
def test_wrong_names_are_refused_with_the_nearest_known(
    arguments: tuple[object, ...], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        make_request(*arguments)  # type: ignore[arg-type]


def test_wrong_settings_are_refused_before_anything_starts() -> None:
    request = make_request("full", "tiny", None, "", ["train.group_size=1"], [])
    with pytest.raises(ConfigError, match=r"train\.group_size"):
        _ = request.config


def test_a_preset_with_dots_makes_a_run_name_without() -> None:
    assert default_run_name("qwen2.5-7b-8gpu") == "qwen2-5-7b-8gpu"
