"""All losses as one page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jbodlab.pages.page import Block, Section, html_page
from jbodlab.pages.values import Column, Unit, Value
from jbodlab.vocabulary.sizes import size_text
from jbodlab.what_if.cluster import Cluster
from jbodlab.what_if.figures import copy_seconds
from jbodlab.what_if.losses import Loss, Losses
from jbodlab.what_if.told import rate_text, remarks

ROWS_MAX = 200
_COUNTED = (
    ("replicas", "replicas"),
    ("last_copies", "last copies"),
    ("leaderless", "without leader"),
    ("below_min_isr", "below min ISR"),
    ("unclean", "unclean"),
    ("leaders_moved", "leaders move"),
)


def losses_page(cluster: Cluster, found: Losses, bytes_per_s: float) -> str:
    """Return the page.

    Args:
        cluster: The cluster.
        found: Effects of its losses.
        bytes_per_s: How fast replicas are copied again.
    """
    sections = [
        _section("directories", "Directories", found.directories.values(), bytes_per_s),
        _section("brokers", "Brokers", found.brokers.values(), bytes_per_s),
        _section("racks", "Racks", found.racks.values(), bytes_per_s),
        _section("pairs", "Worst pairs of directories", found.pairs.values(), None),
    ]
    return html_page(
        sections,
        title="What a loss would take",
        source=cluster.moment,
        lead="; ".join([f"Copies at {rate_text(bytes_per_s)}", *remarks(cluster)]),
        generator="jbodlab what-if",
    )


def _section(name: str, title: str, some: Iterable[Loss], bytes_per_s: float | None) -> Section:
    rows: list[Sequence[Value]] = [_row(loss, bytes_per_s) for loss in some]
    columns = [
        Column(name="name", title="what is lost", unit=Unit.TEXT),
        Column(name="racks", title="rack", unit=Unit.TEXT),
        *(Column(name=each, title=text, unit=Unit.NUMBER) for each, text in _COUNTED),
        Column(name="held", title="bytes", unit=Unit.TEXT),
        Column(name="copy", title="to copy again", unit=Unit.TEXT),
        Column(name="time", title="takes", unit=Unit.DURATION),
    ]
    block = Block(
        name=name,
        title=title,
        columns=columns if bytes_per_s is not None else columns[:-2],
        rows=rows[:ROWS_MAX],
        total=len(rows),
        is_open=True,
        rest="in the JSON of the command",
    )
    return Section(name=f"section-{name}", title=title, blocks=[block])


def _row(loss: Loss, bytes_per_s: float | None) -> Sequence[Value]:
    row: list[Value] = [
        loss.name,
        ", ".join(loss.racks) or None,
        *(getattr(loss, name) for name, _ in _COUNTED),
        size_text(loss.held_bytes),
    ]
    if bytes_per_s is not None:
        seconds = copy_seconds(loss, bytes_per_s)
        row += [size_text(loss.copy_bytes), None if seconds is None else seconds * 1000]
    return row
