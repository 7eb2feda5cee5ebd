from __future__ import annotations

import pytest

from jbodlab.metadata.client_quota import quota_of
from jbodlab.metadata.image.settings_image import QuotaEntities

KEY = "producer_byte_rate"


def whom(**names: str | None) -> QuotaEntities:
    return frozenset((kind.replace("_", "-"), name) for kind, name in names.items())


BY_PRECISION = [
    whom(user="u", client_id="c"),
    whom(user="u", client_id=None),
    whom(user="u"),
    whom(user=None, client_id="c"),
    whom(user=None, client_id=None),
    whom(user=None),
    whom(client_id="c"),
    whom(client_id=None),
]


@pytest.mark.parametrize("first", range(len(BY_PRECISION)))
def test_the_most_precise_quota_counts(first: int) -> None:
    quotas = {
        entities: {KEY: float(place)}
        for place, entities in enumerate(BY_PRECISION)
        if place >= first
    }
    found = quota_of(quotas, KEY, "u", "c")
    assert found is not None
    assert found[0] == first


def test_others_are_not_limited() -> None:
    quotas = {
        whom(user="v"): {KEY: 1.0},
        whom(client_id="d"): {KEY: 1.0},
        whom(client_id="c"): {"consumer_byte_rate": 1.0},
    }
    assert quota_of(quotas, KEY, "u", "c") is None


def test_a_default_gives_each_client_a_limit_of_its_own_and_a_users_is_shared() -> None:
    by_client, by_user = {whom(client_id=None): {KEY: 5.0}}, {whom(user="u"): {KEY: 5.0}}
    assert quota_of(by_client, KEY, "u", "a") != quota_of(by_client, KEY, "u", "b")
    assert quota_of(by_user, KEY, "u", "a") == quota_of(by_user, KEY, "u", "b")
