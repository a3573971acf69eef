"""An export has every reference row that its run rests on, or there is none."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from small_run import ROWS, VALUES, make_lake

from grpo_core.errors import ArtifactError
from grpo_core.store import Fingerprint, Lake, RefLogprobCache
from grpo_core.store.exchange import export_run


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return make_lake(tmp_path / "lake")


def flip_in_logprobs(part: Path) -> None:
    column = pq.read_metadata(part).row_group(0).column(2)
    assert column.path_in_schema.startswith("logprobs")
    data = bytearray(part.read_bytes())
    data[column.data_page_offset + column.total_compressed_size - 3] ^= 1
    part.write_bytes(data)


@pytest.mark.parametrize("damage", ["page", "footer"])
def test_a_run_whose_rows_are_damaged_is_not_exported(
    lake: Lake, tmp_path: Path, damage: str
) -> None:
    """The index of the part is whole."""
    (part,) = lake.root.glob("ref_logprobs/*/part-*.parquet")
    if damage == "page":
        flip_in_logprobs(part)
    else:
        part.write_bytes(part.read_bytes()[:-20])
    with pytest.raises(ArtifactError, match="4 of the 4 reference rows") as caught:
        export_run(lake, "r", tmp_path / "r.tar")
    assert "grpo lake restore --run r" in caught.value.hint
    assert not (tmp_path / "r.tar").exists()


def test_rows_of_another_reference_do_not_stand_in_for_damaged_ones(
    lake: Lake, tmp_path: Path
) -> None:
    """Keys name tokens and temperature, so two references have rows of the same keys."""
    (part,) = lake.root.glob("ref_logprobs/*/part-*.parquet")
    other = Fingerprint("other", "t", "float32", "sdpa")
    RefLogprobCache(lake.root / "ref_logprobs", other).put_many(ROWS, VALUES)
    flip_in_logprobs(part)
    with pytest.raises(ArtifactError, match="4 of the 4 reference rows"):
        export_run(lake, "r", tmp_path / "r.tar")


@pytest.mark.parametrize("text", [None, "{"])
def test_a_run_is_not_exported_without_its_record(
    lake: Lake, tmp_path: Path, text: str | None
) -> None:
    record = lake.root / "runs/r/run.json"
    record.unlink()
    if text is not None:
        record.write_text(text)
    with pytest.raises(ArtifactError, match=str(record)):
        export_run(lake, "r", tmp_path / "r.tar")
    assert not (tmp_path / "r.tar").exists()
