"""What a project's test does with the cluster of the step: it breaks the disk of a leader."""

from __future__ import annotations

import json
import os
import urllib.request
from typing import Any


def ask(method: str, path: str, body: Any = None) -> Any:
    request = urllib.request.Request(
        f"{os.environ['JBODLAB_URL']}v1/{path}",
        data=None if body is None else json.dumps(body).encode(),
        headers={
            "Authorization": f"Bearer {os.environ['JBODLAB_TOKEN']}",
            "Content-Type": "application/json",
        },
        method=method,
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read())


def test_another_broker_leads_when_the_disk_of_the_leader_dies() -> None:
    ask("POST", "topics", {"name": "orders", "partitions": 1, "replicas": 3})
    before = ask("GET", "topics/orders/0")["leader"]

    fault = ask("POST", "faults", {"kind": "permission", "where": "leader of orders-0"})
    ask("GET", f"wait?detected={fault['id']}&timeout=30s")
    ask("GET", "wait?leaders=orders&timeout=30s")

    assert ask("GET", "topics/orders/0")["leader"] != before
    ask("POST", "heal", {})
