"""The picture of a run: time from left to right, one lane below the other, as SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

WIDTH, LEFT, RIGHT = 1000.0, 150.0, 10.0
LANE, GAP, AXIS = 18.0, 6.0, 26.0
CLIENT_LANE = 46.0
PARTITIONS_MAX = 24
TICKS = (0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 3600)
STAIRS = (
    ("first_broken", "first call broken"),
    ("detected", "detected"),
    ("reported", "reported"),
    ("elected", "elected"),
    ("leader_seen", "leader seen"),
    ("first_ack", "first ack"),
)


class Scale:
    """Seconds to places on the page."""

    def __init__(self, length: float) -> None:
        self.length = max(length, 0.1)

    def __call__(self, seconds: float) -> float:
        """Return where a moment is drawn; what lies outside is drawn at the edge."""
        share = min(max(seconds / self.length, 0.0), 1.0)
        return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)


def picture(run: Mapping[str, Any]) -> str:
    """Return all lanes of a run below one time axis."""
    scale, parts, y = Scale(run["length"] or 0.1), [], AXIS
    for fault in run["faults"]:
        parts.append(_fault(fault, scale, y))
        y += LANE + GAP
    for client in run["clients"]:
        parts.append(_client(client, scale, y))
        y += CLIENT_LANE + GAP
    for place, states in run["directories"].items():
        parts.append(_directory(place, states, scale, y))
        y += LANE + GAP
    shown = list(run["partitions"].items())[:PARTITIONS_MAX]
    for partition, states in shown:
        parts.append(_partition(partition, states, scale, y))
        y += LANE + GAP
    if more := len(run["partitions"]) - len(shown):
        parts.append(_label(f"and {more} more", y))
        y += LANE + GAP
    parts.append(_metadata(run["events"], scale, y))
    y += LANE + GAP
    axis = _axis(scale, y)
    return (
        f'<svg class="run" viewBox="0 0 {WIDTH:.0f} {y:.0f}" role="img" '
        f'aria-label="Timeline of the run" data-left="{LEFT}" data-right="{WIDTH - RIGHT}" '
        f'data-length="{scale.length}">{axis}{"".join(parts)}'
        f'<line class="cursor" x1="0" x2="0" y1="0" y2="{y:.0f}" visibility="hidden"/></svg>'
    )


def stairs(run: Mapping[str, Any], fault: Mapping[str, Any]) -> list[tuple[str, float | None]]:
    """Return the steps of one fault, in seconds after it took effect; None for what is not known.

    A value of -1 means that it should have happened and did not.
    """
    steps: list[tuple[str, float | None]] = []
    for field, label in STAIRS:
        if field == "first_broken":
            both = fault["first_broken"] is not None and fault["injected"] is not None
            value = fault["first_broken"] - fault["injected"] if both else None
        else:
            value = run["metrics"].get(f"{fault['name']}.{field}", {}).get("value")
        steps.append((label, value))
    return steps


def _axis(scale: Scale, height: float) -> str:
    step = next((each for each in TICKS if scale.length / each <= 12), TICKS[-1])
    parts, at = [], 0.0
    while at <= scale.length:
        x = scale(at)
        parts.append(
            f'<line class="grid" x1="{x}" x2="{x}" y1="{AXIS - 6:.0f}" y2="{height:.0f}"/>'
            f'<text class="tick" x="{x}" y="{AXIS - 10:.0f}">{at:g} s</text>'
        )
        at += step
    return "".join(parts)


def _label(text: str, y: float) -> str:
    shown = text if len(text) <= 22 else text[:21] + "…"
    return (
        f'<text class="label" x="{LEFT - 8}" y="{y + LANE - 5:.1f}">{escape(shown)}'
        f"<title>{escape(text)}</title></text>"
    )


def _bar(kind: str, begin: float, end: float, y: float, title: str, text: str = "") -> str:
    width = max(end - begin, 2.0)
    inner = f'<text class="inside" x="{begin + 4:.1f}" y="{y + LANE - 5:.1f}">{escape(text)}</text>'
    return (
        f'<rect class="{kind}" x="{begin:.1f}" y="{y:.1f}" width="{width:.1f}" height="{LANE}">'
        f"<title>{escape(title)}</title></rect>{inner if text and width > 7 * len(text) else ''}"
    )


def _fault(fault: Mapping[str, Any], scale: Scale, y: float) -> str:
    label = _label(fault["name"], y)
    if fault["injected"] is None:
        return label + f'<text class="note" x="{LEFT}" y="{y + LANE - 5:.1f}">not injected</text>'
    begin = scale(fault["injected"])
    end = scale(scale.length if fault["healed"] is None else fault["healed"])
    text = f"{fault['kind']} on {', '.join(fault['places'])}"
    return label + _bar("fault", begin, end, y, text, text)


def _client(client: Mapping[str, Any], scale: Scale, y: float) -> str:
    good, bad, per = client["good"], client["bad"], client["per"]
    top = max([1, *good, *bad])
    base = y + CLIENT_LANE

    def outline(values: Sequence[int]) -> str:
        points = [f"{scale(0)},{base:.1f}"]
        for number, value in enumerate(values):
            height = base - value / top * (CLIENT_LANE - 2)
            points += [
                f"{scale(number * per)},{height:.1f}",
                f"{scale((number + 1) * per)},{height:.1f}",
            ]
        return " ".join([*points, f"{scale(len(values) * per)},{base:.1f}"])

    parts = [_label(client["name"], y + 10), f'<polygon class="good" points="{outline(good)}"/>']
    if any(bad):
        parts.append(f'<polygon class="bad" points="{outline(bad)}"/>')
    parts.append(
        f'<text class="tick end" x="{WIDTH - RIGHT}" y="{y + 10:.1f}">{top / per:.0f}/s</text>'
    )
    return "".join(parts)


def _directory(place: str, states: Sequence[Sequence[Any]], scale: Scale, y: float) -> str:
    parts = [_label(place, y)]
    edges = [[0.0, "online"], *states]
    for number, (begin, state) in enumerate(edges):
        end = edges[number + 1][0] if number + 1 < len(edges) else scale.length
        if end > begin:
            parts.append(_bar(state, scale(begin), scale(end), y, f"{place} {state}", state))
    return "".join(parts)


def _partition(partition: str, states: Sequence[Sequence[Any]], scale: Scale, y: float) -> str:
    parts = [_label(partition, y)]
    for number, (begin, leader, isr, replicas) in enumerate(states):
        end = states[number + 1][0] if number + 1 < len(states) else scale.length
        if end <= begin:
            continue
        kind = "offline" if leader < 0 else ("short" if isr < replicas else "online")
        led = f"broker {leader}" if leader >= 0 else "no leader"
        title = f"{partition}: {led}, {isr} of {replicas} in sync from {begin:.3f} s"
        parts.append(_bar(kind, scale(begin), scale(end), y, title, f"{led}, {isr}/{replicas}"))
    return "".join(parts)


def _metadata(events: Sequence[Mapping[str, Any]], scale: Scale, y: float) -> str:
    parts = [_label("metadata log", y)]
    for event in events:
        if event["source"] == "metadata":
            x = scale(event["t"])
            title = f"{event['t']:.3f} s: {event['text']}"
            parts.append(
                f'<rect class="mark" x="{x}" y="{y}" width="1.5" height="{LANE}">'
                f"<title>{escape(title)}</title></rect>"
            )
    return "".join(parts)
