"""The verdict as the XML that continuous integration reads: a test case for each objective."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape, quoteattr


def xml(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Return the XML of some runs, by their engines; a suite for each run.

    An objective that is missed is a failure, one that only warns passes with a note; what makes a
    run inconclusive is an error of a case of its own.
    """
    suites = [
        _suite(run, f"{run['name']} [{engine}]" if len(found) > 1 else run["name"])
        for engine, runs in found.items()
        for run in runs
    ]
    return "\n".join(
        ['<?xml version="1.0" encoding="utf-8"?>', "<testsuites>", *suites, "</testsuites>", ""]
    )


def _suite(run: Mapping[str, Any], name: str) -> str:
    cases = [_case(name, objective) for objective in run["objectives"]]
    cases.append(_conclusive(run, name))
    failures = sum("<failure" in case for case in cases)
    errors = sum("<error" in case for case in cases)
    length = max(0.0, run["length"] or 0.0)
    return (
        f'<testsuite name={quoteattr(name)} tests="{len(cases)}" failures="{failures}" '
        f'errors="{errors}" time="{length:.3f}">\n' + "\n".join(cases) + "\n</testsuite>"
    )


def _case(suite: str, objective: Mapping[str, Any]) -> str:
    body = ""
    text = f"expected {objective['text']}, measured {objective['measured']}"
    if objective["holds"] is False and objective["severity"] == "fail":
        body = f"<failure message={quoteattr(text)}/>"
    elif objective["holds"] is None and objective["severity"] == "fail":
        body = f"<skipped message={quoteattr(text)}/>"
    elif not objective["holds"]:
        body = f"<system-out>{escape(text)}</system-out>"
    return _named(suite, objective["text"], body)


def _conclusive(run: Mapping[str, Any], suite: str) -> str:
    """Return the case for losses that no objective names, and for doubts."""
    lost = [text for text in run["missed"] if text.endswith("were lost")]
    if lost:
        return _named(suite, "nothing is lost", f"<failure message={quoteattr('; '.join(lost))}/>")
    doubts = "; ".join(run["doubts"])
    return _named(suite, "conclusive", f"<error message={quoteattr(doubts)}/>" if doubts else "")


def _named(suite: str, name: str, body: str) -> str:
    head = f"<testcase classname={quoteattr(suite)} name={quoteattr(name)}"
    return f"{head}>{body}</testcase>" if body else f"{head}/>"
