"""The start page of several clusters: their order, and bounds on what it shows of many."""

from __future__ import annotations

import json
from dataclasses import asdict

from analytics.page.report_text import MAX_LINES, ranking_text
from analytics.page.start_page import (
    CLUSTERS_WITH_INCIDENTS,
    RANKED_BY,
    ClusterSummary,
    ranked,
    start_page,
)
from tests.analytics.page_reader import read_page

INCIDENT = ("broker", 1, None, 1000, None, 5000, "fenced", None, 2, 5000, 0, 2)


def summary(incidents: int = 0, **facts: float | None) -> ClusterSummary:
    return ClusterSummary(
        first_ms=1000,
        last_ms=6000,
        end_ms=6000,
        facts=dict.fromkeys((*RANKED_BY, "incidents"), 0) | facts,
        incidents=(INCIDENT,) * incidents,
    )


def test_what_is_open_now_comes_before_what_was() -> None:
    clusters = {
        "a-healthy": summary(),
        "b-was-down": summary(leaderless_ms=10**9),
        "c-leaderless": summary(leaderless_now=1),
        "d-open": summary(open_incidents=1),
        "e-more-open": summary(open_incidents=2, leaderless_now=None),
        "f-unknown": summary(leaderless_ms=None),
    }

    order = [name[0] for name in ranked(clusters)]
    assert order == ["e", "d", "c", "b", "a", "f"]


def test_the_start_page_says_how_each_cluster_is_and_leads_to_its_page() -> None:
    clusters = {"eu": summary(availability=0.5, topics=3), "us": summary(2, open_incidents=2)}
    links = {name: f"reports/{name}.html" for name in clusters}

    page = start_page(clusters, links)

    read = read_page(page)
    assert not read.faults
    found = [given["href"] for tag, given in read.tags if tag == "a"]
    assert found == ["#clusters", "#incidents", *(links[name] for name in ("us", "eu", "us", "us"))]
    assert "<title>2 clusters: us, eu</title>" in page
    assert 'data-first="1970-01-01T00:00:01.000Z" data-last="1970-01-01T00:00:06.000Z"' in page
    assert page.count("data-query") == 0


def test_many_clusters_give_a_start_page_and_a_text_of_bounded_size() -> None:
    clusters = {f"cluster-{n:03}": summary(20, open_incidents=n % 7) for n in range(500)}

    page = start_page(clusters, {name: f"reports/{name}.html" for name in clusters})
    text = ranking_text({name: clusters[name].facts for name in ranked(clusters)})

    assert len(page) < 2_000_000
    assert page.count(">fenced<") == 20 * CLUSTERS_WITH_INCIDENTS
    assert page.count('data-column="open_incidents"') == 500
    assert len(text.splitlines()) == MAX_LINES + 1
    assert text.splitlines()[-1].endswith("... and 480 more, on the start page")


def test_what_a_run_leaves_for_the_start_page_of_the_next_is_the_same_page() -> None:
    clusters = {"eu": summary(1), "us": summary(2, open_incidents=2)}
    again = {
        name: ClusterSummary(**json.loads(json.dumps(asdict(one))))
        for name, one in clusters.items()
    }

    assert start_page(again, {}) == start_page(clusters, {})
