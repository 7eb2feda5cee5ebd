"""Subscriptions by regular expression: the whole name of a topic must match.

The matches of an expression are a record: until the first one it matches nothing. It is looked for
on a timer, a bounded number of names at a time.

Source: KIP-848, "Regular Expressions"; `GroupMetadataManager.refreshRegularExpressions`.
"""

from __future__ import annotations

from broker.bounds.limits import CHECKS_AT_ONCE
from broker.clients.regular_expressions import compiled
from broker.groups.consumer.draft import Draft, regex_timer
from broker.groups.consumer.group import ConsumerGroup, Member, ResolvedRegex
from broker.groups.topics import Topics

RESOLUTION_INTERVAL_MS = 10_000
"""At least so long between two resolutions of one group."""


def plan_resolution(draft: Draft, member: Member) -> None:
    """Set the timer if the expression of a member is not resolved, or no longer up to date."""
    regex = member.subscribed_topic_regex
    if not regex or not is_outdated(draft, regex):
        return
    last_ms = _last_resolution_ms(draft.group)
    now_ms = draft.context.now_ms
    # A clock that was set back makes the wait no longer.
    due_ms = max(now_ms, min(last_ms, now_ms) + RESOLUTION_INTERVAL_MS) if last_ms else now_ms
    draft.set_timer(regex_timer(draft.group.group_id), due_ms)


def is_outdated(draft: Draft, regex: str) -> bool:
    """Whether topics came or went, or much time passed, since an expression was resolved."""
    resolved = draft.group.regexes.get(regex)
    if resolved is None or resolved.version < draft.context.topics.names_version:
        return True
    age_ms = draft.context.now_ms - resolved.timestamp
    return age_ms >= draft.context.settings.consumer_regex_refresh_interval_ms


def _last_resolution_ms(group: ConsumerGroup) -> int:
    return max((resolved.timestamp for resolved in group.regexes.values()), default=0)


def resolve(draft: Draft) -> None:
    """Resolve what is not up to date; the group has a new epoch if any expression changes."""
    context, topics = draft.context, draft.context.topics
    outdated = [
        regex
        for regex in sorted(draft.group.subscribed_regexes())
        if is_outdated(draft, regex) and not _is_older(draft.group, regex, topics)
    ]
    names = sorted(topics.names())
    at_once = max(1, CHECKS_AT_ONCE // max(1, len(names)))
    has_changed = False
    for regex in outdated[:at_once]:
        before = draft.group.regexes.get(regex)
        pattern = compiled(regex)
        found = tuple(name for name in names if pattern.fullmatch(name))
        draft.write_regex(
            regex, ResolvedRegex(topics=found, version=topics.version, timestamp=context.now_ms)
        )
        has_changed |= found != (before.topics if before is not None else ())
    if has_changed:
        draft.write_epoch(draft.group.epoch + 1)
    if len(outdated) > at_once:
        draft.set_timer(regex_timer(draft.group.group_id), context.now_ms)


def _is_older(group: ConsumerGroup, regex: str, topics: Topics) -> bool:
    """Whether the metadata here are older than those that the stored result was made of."""
    resolved = group.regexes.get(regex)
    return resolved is not None and topics.version < resolved.version
