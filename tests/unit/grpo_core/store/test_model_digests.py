"""What of a model directory its digest sees; what is not there adds nothing."""

import shutil
from pathlib import Path

import pytest

from grpo_core.models import directory as model_files
from grpo_core.paths import resolve_path
from grpo_core.store.files import FileDigests
from grpo_core.store.models import (
    model_digest,
    tokenizer_digest,
    tokenizer_files,
    weights_digest,
)

TINY = resolve_path("data/models/tiny")
DIGESTS = FileDigests(None)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    copy = tmp_path / "model"
    shutil.copytree(TINY, copy)
    return copy


def write(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    "name", [*model_files.TOKENIZER_FILES, "additional_chat_templates/short.jinja"]
)
def test_every_file_that_makes_a_tokenizer_is_seen(model: Path, name: str) -> None:
    seen = set()
    for text in ("{}", "{ }"):
        write(model / name, text)
        seen |= {model_digest(model, DIGESTS), tokenizer_digest(model, DIGESTS)}
        assert model / name in tokenizer_files(model)
    assert len(seen) == 4


@pytest.mark.parametrize("name", ["modeling_own.py", "tokenization_own.py"])
@pytest.mark.parametrize("digest", [model_digest, weights_digest, tokenizer_digest])
def test_code_is_seen_where_it_is_trusted(model: Path, name: str, digest) -> None:
    plain = digest(model, DIGESTS)
    assert digest(model, DIGESTS, with_code=True) == plain
    write(model / name, "x = 1\n")
    first = digest(model, DIGESTS, with_code=True)
    write(model / name, "x = 2\n")
    assert digest(model, DIGESTS) == plain
    assert len({plain, first, digest(model, DIGESTS, with_code=True)}) == 3


@pytest.mark.parametrize("name", ["chat_template.jinja", "additional_chat_templates/short.jinja"])
def test_the_date_that_a_template_asks_for_is_seen(model: Path, name: str, monkeypatch) -> None:
    def on_another_day() -> bool:
        before = tokenizer_digest(model, DIGESTS)
        with monkeypatch.context() as patch:
            patch.setattr("grpo_core.store.models.TEMPLATE_DATE", "2031-12-24")
            return tokenizer_digest(model, DIGESTS) != before

    write(model / name, "{{ messages }}")
    assert not on_another_day()
    write(model / name, "{{ strftime_now('%d %b %Y') }}{{ messages }}")
    assert on_another_day()


def test_the_shipped_models_digests_are_those_of_the_lakes_there_are() -> None:
    assert model_digest(TINY, DIGESTS).startswith("a689f55b96258422")
    assert tokenizer_digest(TINY, DIGESTS).startswith("a04d70c18656928a")
