"""The live page of a real cluster: asked as browsers and others ask, and used in a browser."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from fault_injection.journal import read_faults
from jbodlab.cli import lab_state
from lab.cluster import wait_for
from lab.machine.folders import make_folder, remove_folder
from lab.state_files import StateFiles
from tests.cluster.lab_cluster import Cluster
from tests.cluster.live_page import Page, served
from tests.cluster.staying import Staying
from tests.headless_browser import Browser, find_browser

pytestmark = pytest.mark.cluster

BROWSER = find_browser()
NEEDS_BROWSER = pytest.mark.skipif(BROWSER is None, reason="no Chromium or Chrome on the path")
WIDE, NARROW = (1440, 900), (390, 844)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Staying]:
    root = make_folder()
    staying = Staying(root)
    try:
        staying.told("up", "--brokers", "2", "--disks", "2", "--kind", "folder")
        known = opened(staying)
        known.create_topic("orders", 4, 2)
        known.create_topic("alone", 1, 1)
        yield staying
    finally:
        staying.run("down", "--yes")
        remove_folder(root)


@pytest.fixture(scope="module")
def page(cluster: Staying) -> Iterator[Page]:
    with served(cluster, "--allow-faults") as found:
        wait_for(
            "a page that knows the partitions",
            lambda: found.state()["sections"]["partitions"]["count"] >= 5,
        )
        yield found


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    assert BROWSER is not None
    with Browser(BROWSER, tmp_path_factory.mktemp("profile")) as opened:
        yield opened


def opened(cluster: Staying) -> Cluster:
    state = StateFiles(cluster.state_dir).read("default")
    assert state is not None
    return Cluster(state)


def wait_whole(page: Page) -> None:
    wait_for(
        "a page on which nothing is wrong",
        lambda: not page.state()["sections"]["problems"],
        last_seen=lambda: page.state()["sections"]["problems"],
    )


def test_the_state_tells_brokers_directories_and_partitions(page: Page) -> None:
    wait_whole(page)
    sections = page.state()["sections"]

    assert [broker["state"] for broker in sections["brokers"]] == ["serves", "serves"]
    assert {one["state"] for b in sections["brokers"] for one in b["log_dirs"]} == {"online"}
    assert sum(broker["leaders"] for broker in sections["brokers"]) >= 5
    one = page.get("/v1/topics/orders/3")
    assert (one["state"], len(one["replicas"])) == ("in sync", 2)
    assert all(replica["directory"][:7] == "broker-" for replica in one["replicas"])


def test_what_a_loss_would_take_is_a_page_of_its_own(page: Page) -> None:
    wait_whole(page)

    status, fields, body = page.ask("GET", "/v1/what-if/page")

    assert status == 200, body
    assert fields["content-security-policy"] == "frame-ancestors 'none'"
    text = body.decode()
    assert "What a loss would take" in text
    assert "broker-2" in text


def test_a_fault_of_the_page_is_seen_and_healed(page: Page, cluster: Staying) -> None:
    wait_whole(page)
    words = {"kind": "permission", "where": "broker-1/2", "for": "60s", "even_last_in_sync": True}
    with page.events() as patch:
        assert patch()["whole"]
        status, said = page.post("/v1/faults", words)
        assert (status, said["where"], said["mechanism"]) == (201, "broker-1/2", "files")
        found: dict[str, Any] = {}
        while found.get("state") != "OFFLINE":
            brokers = patch()["sections"].get("brokers")
            found = brokers[0]["log_dirs"][1] if brokers else {}
    assert found["faults"] == ["permission"]
    assert "Permission denied" in found["cause"]
    (fault,) = read_faults(cluster.journal)
    assert (fault.length_s, fault.timer is not None) == (60.0, True)

    status, said = page.post("/v1/heal")

    assert status == 200, said
    assert said["revived"] == ["broker-1/2"]
    wait_whole(page)
    events = page.state()["events"]
    assert {"offline", "proved", "healed"} <= {event["kind"] for event in events}


def test_the_last_replica_in_sync_is_broken_only_if_that_is_ticked(page: Page) -> None:
    wait_whole(page)
    (replica,) = page.get("/v1/topics/alone/0")["replicas"]
    where = replica["directory"]

    status, said = page.post("/v1/faults", {"kind": "permission", "where": where, "for": "20s"})

    assert status == 409
    assert said["detail"].startswith(f"{where} has the last replica in sync of ")
    assert "alone-0" in said["detail"]


@pytest.mark.parametrize(
    ("words", "status", "reason"),
    [
        ({"kind": "eio", "where": "broker-1/2"}, 409, "expected a length of up to 600 s"),
        ({"kind": "eio", "where": "broker-1/2", "for": "11m"}, 409, "of up to 600 s"),
        ({"kind": "eio", "where": "broker-9/2", "for": "1s"}, 404, "unknown broker-9"),
        ({"kind": "rust", "where": "broker-1/2", "for": "1s"}, 400, "Invalid enum value 'rust'"),
        ({"kind": "eio", "where": "/etc", "for": "1s"}, 404, "expected a target such as"),
        ({"kind": "eio", "where": "broker-1/2", "for": "1s", "x": 1}, 400, "unknown field `x`"),
        ({"kind": "kill", "where": "broker-1", "errno": "EIO"}, 409, "unknown key 'errno' of kill"),
    ],
)
def test_wrong_wishes_are_refused_with_a_reason(
    page: Page, cluster: Staying, words: dict[str, Any], status: int, reason: str
) -> None:
    found, said = page.post("/v1/faults", words)

    assert (found, reason in said["detail"]) == (status, True), said
    assert read_faults(cluster.journal) == []


FOREIGN: Mapping[str, dict[str, str]] = {
    "a foreign Origin": {"Origin": "http://evil.example"},
    "a foreign Host": {"Host": "evil.example"},
    "no token": {"Authorization": ""},
    "a form": {"Content_Type": "text/plain"},
}


@pytest.mark.parametrize("case", FOREIGN)
def test_what_is_not_the_page_breaks_nothing(page: Page, cluster: Staying, case: str) -> None:
    words = {"kind": "permission", "where": "broker-1/2", "for": "20s", "even_last_in_sync": True}

    status, _ = page.post("/v1/faults", words, **FOREIGN[case])

    assert status in (401, 403, 415, 421)
    assert read_faults(cluster.journal) == []


def test_answers_carry_the_headers_that_keep_other_pages_out(page: Page) -> None:
    for path in ("/", "/page.js", "/v1/brokers", "/nothing"):
        _, headers, _ = page.ask("GET", path)
        assert headers["content-security-policy"].startswith("default-src 'self'"), path
        assert headers["cross-origin-resource-policy"] == "same-origin"


def test_requests_that_are_too_large_are_refused(page: Page) -> None:
    assert page.post("/v1/faults", "x" * 300_000)[0] == 413
    # The connection ends before such a head has been sent.
    with contextlib.suppress(ConnectionError):
        assert page.ask("GET", "/" + "x" * 200_000)[0] == 400
    assert page.ask("GET", "/v1/health")[0] == 200


def test_a_page_that_comes_back_gets_the_difference_and_a_new_start_gives_all(page: Page) -> None:
    with page.events() as patch:
        first = patch()
    with page.events(first["id"]) as patch:
        assert not patch()["whole"]
    with page.events("00000000-5") as patch:
        assert patch()["whole"]


def test_without_leave_there_are_no_buttons_and_no_routes(cluster: Staying) -> None:
    with served(cluster) as page:
        sections = page.state()["sections"]
        assert (sections["cluster"]["may_break"], sections["cluster"]["kinds"]) == (False, [])
        assert page.token == ""
        assert page.post("/v1/heal")[0] == 404
        assert page.post("/v1/faults", {})[0] == 405


def test_what_the_page_broke_is_healed_when_it_ends(cluster: Staying) -> None:
    with served(cluster, "--allow-faults") as page:
        words = {"kind": "deleted", "where": "broker-2/1", "for": "10m", "even_last_in_sync": True}
        assert page.post("/v1/faults", words)[0] == 201
        assert len(read_faults(lab_state.journal_file(cluster.state_dir))) == 1
        wait_for("a broker that has noticed", lambda: page.directory(2, 1)["state"] == "OFFLINE")

    assert page.process.returncode == 130
    assert read_faults(cluster.journal) == []
    _, *told = (cluster.state_dir / "page.err").read_text().splitlines()
    assert "healed" in told[0]
    assert "broker-2/1 is still offline" in told[1]
    cluster.told("heal", "--revive")


def test_a_cluster_of_somebody_else_is_looked_at_and_never_broken(cluster: Staying) -> None:
    address = opened(cluster).bootstrap
    refused = cluster.run("ui", "--bootstrap-server", address, "--allow-faults")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 2)

    with served(cluster, "--bootstrap-server", address) as page:
        wait_whole(page)
        sections = page.state()["sections"]
        assert len(sections["brokers"]) == 2
        assert len(sections["cluster"]["not_known"]) == 2


def test_a_cluster_that_does_not_answer_is_one_line(cluster: Staying) -> None:
    for address in ("127.0.0.1:1", "nonsense", "127.0.0.1:x"):
        refused = cluster.run("ui", "--bootstrap-server", address)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert refused.stderr.startswith("jbodlab: ")
        assert refused.stderr.count("\n") == 1


def text_of(browser: Browser, element: str) -> str:
    return browser.value(f"document.getElementById('{element}')?.innerText ?? ''")


def wait_text(browser: Browser, element: str, wanted: Callable[[str], bool]) -> None:
    wait_for(
        f"what is wanted in {element}",
        lambda: wanted(text_of(browser, element)),
        last_seen=lambda: text_of(browser, element),
    )


@NEEDS_BROWSER
@pytest.mark.parametrize("size", [WIDE, NARROW])
@pytest.mark.parametrize("dark", [False, True])
def test_the_page_fits_has_no_errors_and_asks_nobody_else(
    page: Page, browser: Browser, size: tuple[int, int], dark: bool
) -> None:
    wait_whole(page)
    browser.open(page.url, *size, dark=dark)
    wait_text(browser, "problems", lambda text: "none" in text)
    wait_text(browser, "dir-2-2", lambda text: "online" in text)

    assert browser.errors == []
    assert [url for url in browser.requests if f"//127.0.0.1:{page.port}/" not in url] == []
    assert browser.value("document.documentElement.scrollWidth") <= size[0]
    back = browser.value("getComputedStyle(document.body).backgroundColor")
    assert back == ("rgb(20, 23, 27)" if dark else "rgb(255, 255, 255)")
    # Colour never alone: what a box says of its state is a word, too.
    shown = browser.value("[...document.querySelectorAll('.dir')].map((e) => e.innerText)")
    assert all("online" in text for text in shown)
    assert "token" not in browser.value("location.href")


@NEEDS_BROWSER
def test_a_disk_is_broken_and_healed_by_keyboard_alone(page: Page, browser: Browser) -> None:
    wait_whole(page)
    browser.open(page.url, *NARROW)
    wait_text(browser, "break-1-1", lambda text: text == "Break broker-1/1")
    tab_to(browser, "break-1-1")
    browser.key("Enter")
    tab_to(browser, "last")
    browser.key(" ")
    tab_to(browser, "do-break")
    browser.key("Enter")

    wait_text(browser, "dir-1-1", lambda text: "OFFLINE" in text and "permission" in text)
    wait_text(browser, "problems", lambda text: "broker-1/1 is offline" in text)
    tab_to(browser, "heal")
    browser.key("Enter")

    wait_text(browser, "said", lambda text: "broker-1/1 is online again" in text)
    wait_text(browser, "dir-1-1", lambda text: "online" in text)
    assert browser.errors == []
    wait_whole(page)


@NEEDS_BROWSER
def test_a_killed_broker_is_seen_and_the_page_comes_back_after_a_new_start(
    cluster: Staying, browser: Browser
) -> None:
    with served(cluster) as page:
        browser.open(page.url, *WIDE)
        wait_text(browser, "broker-2", lambda text: "serves" in text)
        cluster.told("kill", "broker-2")
        wait_text(browser, "broker-2", lambda text: "SILENT" in text)
        cluster.told("start", "broker-2")
        wait_text(browser, "broker-2", lambda text: "serves" in text)
        port = page.port
    wait_text(browser, "connection", lambda text: "lost" in text)
    with served(cluster, "--port", str(port)):
        wait_text(browser, "connection", lambda text: text == "live")


def tab_to(browser: Browser, element: str) -> None:
    """Press the tabulator until an element has the focus, as somebody without a mouse does."""
    for _ in range(80):
        browser.key("Tab")
        if browser.value("document.activeElement.id") == element:
            return
    raise AssertionError(f"no way leads to {element}")
