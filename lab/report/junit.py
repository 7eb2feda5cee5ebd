"""The verdict as the XML that continuous integration reads: a test case for each objective."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from lab.findings import Kind, Weight

_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that no document of XML 1.0 may have."""


def unfinished(reason: str) -> str:
    """Return the XML of a rehearsal without a verdict: one error."""
    name = "jbodlab rehearse"
    error = _named(name, "conclusive", f"<error message={quoteattr(reason)}/>")
    return _document(
        [f'<testsuite name="{name}" tests="1" failures="0" errors="1">{error}</testsuite>']
    )


def xml(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Return the XML of some runs, by their engines; a suite for each run.

    An objective that is missed is a failure, one that only warns passes with a note. Another
    finding that fails a run is a failure of a case of its own; one that makes it inconclusive is an
    error of one.
    """
    suites = [
        _suite(run, f"{run['name']} [{engine}]" if len(found) > 1 else run["name"])
        for engine, runs in found.items()
        for run in runs
    ]
    return _document(suites)


def _document(suites: Sequence[str]) -> str:
    lines = ['<?xml version="1.0" encoding="utf-8"?>', "<testsuites>", *suites, "</testsuites>", ""]
    # A program may have printed anything as its last line.
    return _NOT_IN_XML.sub("\N{REPLACEMENT CHARACTER}", "\n".join(lines))


def _suite(run: Mapping[str, Any], name: str) -> str:
    cases = [_case(name, objective) for objective in run["objectives"]]
    cases += _of_findings(run["findings"], name)
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


def _of_findings(findings: Sequence[Mapping[str, Any]], suite: str) -> Iterator[str]:
    """Yield a case for each rule that was broken and is no objective, and one for all doubts."""
    failed: dict[str, list[str]] = {}
    for found in findings:
        if rule := Kind[found["kind"].upper()].rule:
            failed.setdefault(rule, []).append(found["text"])
    for rule, texts in failed.items():
        yield _named(suite, rule, f"<failure message={quoteattr('; '.join(texts))}/>")
    doubts = [found["text"] for found in findings if found["weight"] == Weight.DOUBT.value]
    if doubts:
        yield _named(suite, "conclusive", f"<error message={quoteattr('; '.join(doubts))}/>")
    elif not failed:
        yield _named(suite, "conclusive", "")


def _named(suite: str, name: str, body: str) -> str:
    head = f"<testcase classname={quoteattr(suite)} name={quoteattr(name)}"
    return f"{head}>{body}</testcase>" if body else f"{head}/>"
