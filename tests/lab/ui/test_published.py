"""State that a browser that comes back lacks."""

from __future__ import annotations

from lab.ui.published import EVENTS_KEPT, Published


def test_only_what_changed_is_told() -> None:
    published = Published("s")
    assert published.publish({"a": 1, "b": 1}, ["first"])
    seen = published.id
    assert not published.publish({"a": 1, "b": 1})
    assert published.publish({"a": 1, "b": 2}, ["second"])

    assert published.since(seen) == {
        "id": "s-2",
        "whole": False,
        "sections": {"b": 2},
        "events": ["second"],
    }


def test_who_missed_many_publications_gets_one_patch_with_the_newest() -> None:
    published = Published("s")
    published.publish({"a": 0, "b": 0})
    seen = published.id
    for number in range(1, 50):
        published.publish({"a": number}, [number])

    patch = published.since(seen)

    assert patch["sections"] == {"a": 49}
    assert patch["events"] == list(range(1, 50))


def test_who_has_seen_another_start_or_nonsense_gets_everything() -> None:
    published = Published("s")
    published.publish({"a": 1}, ["e"])

    for last in ("", "other-1", "s-", "s-x", "s-99", "s--1", "s-" + "9" * 400):
        patch = published.since(last)
        assert (patch["whole"], patch["sections"], patch["events"]) == (True, {"a": 1}, ["e"]), last


def test_who_missed_more_events_than_are_kept_gets_everything() -> None:
    published = Published("s")
    published.publish({"a": 1}, ["first"])
    seen = published.id
    for number in range(EVENTS_KEPT):
        published.publish({}, [number])
    assert not published.since(seen)["whole"]
    published.publish({}, ["one too many"])

    assert published.since(seen)["whole"]
