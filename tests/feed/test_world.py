"""Rank and world, from wherever they are told."""

from __future__ import annotations

import json

import pytest

from penstock.errors import SelectionError
from penstock.feed.world import World, find_world

CLUSTER = {"chief": ["a:1"], "worker": ["b:1", "c:1"]}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, World(0, 1)),
        ({"RANK": "2", "WORLD_SIZE": "4"}, World(2, 4)),
        ({"RANK": "2"}, World(0, 1)),
        ({"TF_CONFIG": json.dumps({"cluster": CLUSTER, "task": {"type": "chief", "index": 0}})}, World(0, 3)),
        (
            {"TF_CONFIG": json.dumps({"cluster": CLUSTER, "task": {"type": "worker", "index": 1}})},
            World(2, 3),
        ),
        ({"TF_CONFIG": json.dumps({"cluster": CLUSTER, "task": {"type": "ps", "index": 0}})}, World(0, 1)),
        ({"TF_CONFIG": "{}"}, World(0, 1)),
    ],
)
def test_the_environment_tells(environment, expected) -> None:
    assert find_world(environment=environment) == expected


def test_arguments_come_first() -> None:
    assert find_world(1, 2, environment={"RANK": "0", "WORLD_SIZE": "4"}) == World(1, 2)


@pytest.mark.parametrize(
    ("rank", "world", "environment"),
    [
        (1, None, {}),
        (None, 2, {}),
        (2, 2, {}),
        (-1, 2, {}),
        (None, None, {"RANK": "x", "WORLD_SIZE": "2"}),
        (None, None, {"TF_CONFIG": "not json"}),
        (None, None, {"TF_CONFIG": "[1]"}),
        (
            None,
            None,
            {
                "RANK": "0",
                "WORLD_SIZE": "2",
                "TF_CONFIG": json.dumps({"cluster": CLUSTER, "task": {"type": "worker", "index": 1}}),
            },
        ),
    ],
)
def test_nonsense_and_contradictions_are_refused(rank, world, environment) -> None:
    with pytest.raises(SelectionError):
        find_world(rank, world, environment)
