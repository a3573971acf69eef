"""A small lake and its catalog, written once for each file of tests."""

import pytest
from lake_fixture import LakeFixture, make_lake

from grpo_core.store.catalog import Catalog


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> LakeFixture:
    fixture = make_lake()
    fixture.write(tmp_path_factory.mktemp("lake"))
    return fixture


@pytest.fixture(scope="module")
def catalog(lake: LakeFixture, tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    return lake.write(tmp_path_factory.mktemp("again"), like=lake)
