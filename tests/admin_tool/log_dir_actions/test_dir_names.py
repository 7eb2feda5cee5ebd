from __future__ import annotations

from argparse import ArgumentTypeError

import pytest

from admin_tool.log_dir_actions.dir_names import resolve
from jbodlab.cli.dir_names import DirName, dir_name, dir_or_broker
from jbodlab.kafka_admin.errors import AdminError
from jbodlab.kafka_admin.log_dirs import DescribedLogDir

DIRS = [DescribedLogDir(path=path, error_code=0, replicas=()) for path in ("/b", "/a")]


def test_a_directory_is_named_by_its_number_or_its_path() -> None:
    assert dir_name("broker-1/2") == DirName(1, number=2)
    assert dir_name("broker-12:/mnt/d 2") == DirName(12, path="/mnt/d 2")
    assert resolve(dir_name("broker-1/2"), DIRS).path == "/a"
    assert resolve(dir_name("broker-1:/b"), DIRS).path == "/b"


def test_a_broker_means_all_of_its_directories_where_that_is_allowed() -> None:
    assert dir_or_broker("broker-1").is_broker
    with pytest.raises(ArgumentTypeError, match="expected a directory such as broker-1/1"):
        dir_name("broker-1")


@pytest.mark.parametrize("wrong", ["", "1", "broker-", "broker-1/", "broker-1/d", "broker-1:d"])
def test_other_names_are_refused(wrong: str) -> None:
    with pytest.raises(ArgumentTypeError, match="expected broker-1/2 or broker-1:/PATH, got "):
        dir_or_broker(wrong)


@pytest.mark.parametrize(
    ("name", "shown"), [("broker-1/3", "3"), ("broker-1/0", "0"), ("broker-1:/x", "/x")]
)
def test_an_unknown_directory_is_refused_with_those_of_the_broker(name: str, shown: str) -> None:
    with pytest.raises(AdminError) as refused:
        resolve(dir_name(name), DIRS)
    assert str(refused.value) == f"broker 1 has no log directory {shown}, it has 1: /b, 2: /a"
