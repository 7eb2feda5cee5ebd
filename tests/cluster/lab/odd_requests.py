"""Odd requests to the HTTP API: what a seed makes of the declared ones, and of HTTP itself."""

from __future__ import annotations

import json
import random
import socket
import string
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

OPENAPI = json.loads((Path(__file__).parents[3] / "docs" / "openapi.json").read_text("utf-8"))
TIMEOUT_S = 120
LENGTHS_S = (0, 1, -1, "1s", "300ms", "0s", "99h", "", 1.5, True, [], {}, "1s\n")
ODD: tuple[Any, ...] = (
    *(None, True, 0, -1, 1, 2, 99, 2**31 - 1, 2**31, 2**63, 10**400, 0.5, 1e308, -0.0),
    *("", " ", "\x00", "\ud800", "é", "💥", "a" * 250, "a" * 5000, "..", "../../etc/passwd", "%00"),
    *("true", "null", "0x10", "1e3", "\u0661", "broker-1/1", "broker-0", "broker-1/0"),
    *("leader of odd-0", "leader of -0", "follower of odd-99999999999999999999", "cluster"),
    *(
        "broker-9/9",
        "controller",
        "controller-100/1",
        "eio",
        "30s",
        [],
        {},
        [[]],
        [None],
        {"": None},
    ),
)
SLOW = ("replaceCluster", "createRehearsal", "getReport", "getWhatIf", "getWhatIfPage", "heal")
"""Requests that take seconds when they are carried out: most of them are sent with a fault."""
NO_HTTP = b"Invalid HTTP request received."
ENDLESS = ("streamEvents",)
ENDS_NODES = ("kill", "stop", "freeze")
"""Acts whose nodes would make every later request slow: only of nodes that do not exist."""
MANY = (99, 100)
SHORT = ("permission", "eio", "slow", "read-only")
"""Kinds of faults that are made and healed at once."""


@dataclass(slots=True)
class Odd:
    """Sends requests that one seed makes, and keeps what was wrong about the answers."""

    port: int
    seed: int
    random: random.Random = field(init=False)
    statuses: Counter[int] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def send(self, count: int) -> None:
        """Send so many, and look at every answer."""
        for number in range(count):
            make = self.random.choices([self._declared, self._broken, self._cut_off], [8, 3, 1])[0]
            request, may_be_silent = make()
            answer = self._answer(request, reads=make != self._cut_off)
            if reason := self._complaint(answer, may_be_silent=may_be_silent):
                self.wrong.append(f"{number} of {self.seed}: {reason}: {request[:600]!r}")

    def _declared(self) -> tuple[bytes, bool]:
        """A declared request with odd values."""
        path, method, one = self.random.choice(_operations())
        odd = self.random.random() < (0.97 if one["operationId"] in SLOW else 0.8)
        query = []
        for parameter in one.get("parameters", ()):
            value = self._value(parameter["schema"], odd=odd)
            if parameter["in"] == "path":
                if path.endswith(ENDS_NODES) and str(value).strip() in ("1", "2", "3", "100"):
                    value = 9
                path = path.replace(f"{{{parameter['name']}}}", quote(_text(value), safe=""))
            elif parameter["in"] == "query" and self.random.random() < 0.6:
                name = parameter["name"]
                value = "50ms" if name == "timeout" else value
                query.append(f"{name}={quote(_text(value), safe='')}")
        if odd and self.random.random() < 0.2:
            query += self.random.choices(
                ["token=x", "all=maybe", "=", "a=b=c", "%zz", "\xe9=1"], k=2
            )
        body = b""
        if "requestBody" in one:
            schema = one["requestBody"]["content"]["application/json"]["schema"]
            body = self._body(schema, odd=odd)
        elif odd and (one["operationId"] in SLOW or self.random.random() < 0.1):
            body = b"[1"
        target = f"/v1{path.removeprefix('/v1')}{'?' if query else ''}{'&'.join(query)}"
        return self._request(method, target, body), False

    def _body(self, schema: Any, *, odd: bool) -> bytes:
        value = self._value(schema, odd=odd)
        if isinstance(value, dict):
            # A hundred brokers would keep the machine busy for minutes.
            value |= {name: 3 for name in ("brokers", "disks") if value.get(name) in MANY}
            # The fault heals soon.
            value["for"] = self.random.choice(LENGTHS_S) if odd else "300ms"
            if value.get("kind") not in SHORT:
                value["kind"] = self.random.choice([*SHORT, "explode", 7])
            if "where" not in value:
                del value["for"], value["kind"]
        text = json.dumps(value).encode()
        if not odd:
            return text
        spoil = self.random.random()
        if spoil < 0.1:
            return text[: self.random.randrange(len(text) + 1)]
        if spoil < 0.15:
            return text.replace(b'"', b'"\xff', 1)
        if spoil < 0.2:
            return b"[" * 5000 + text
        if spoil < 0.22:
            return b'{"where": "' + b"x" * 300_000 + b'"}'
        return text

    def _value(self, schema: Any, *, odd: bool) -> Any:
        """A value that fits a schema, or one that may not."""
        if odd and self.random.random() < 0.4:
            return self.random.choice(ODD)
        if "$ref" in schema:
            return self._value(
                OPENAPI["components"]["schemas"][schema["$ref"].split("/")[-1]], odd=odd
            )
        if "enum" in schema:
            return self.random.choice(schema["enum"])
        if "anyOf" in schema:
            return self._value(self.random.choice(schema["anyOf"]), odd=odd)
        match schema.get("type"):
            case "object":
                given = schema.get("properties", {})
                names = [
                    name
                    for name in given
                    if name in schema.get("required", ()) or self.random.random() < 0.15
                ]
                if odd and self.random.random() < 0.1:
                    names.append("unknown")
                return {name: self._value(given.get(name, {}), odd=odd) for name in names}
            case "array":
                return [self._value(schema.get("items", {}), odd=odd)]
            case "integer" | "number":
                return self.random.choice([0, 1, 2, 3, 100])
            case "boolean":
                return self.random.random() < 0.5
            case "null":
                return None
        return self.random.choice(
            ["odd", "broker-1/1", "leader of odd-0", "1s", "java", "permission"]
        )

    def _request(self, method: str, target: str, body: bytes) -> bytes:
        kind = self.random.choices(
            ["application/json", "text/plain", "application/json; charset=utf-16", ""], [9, 1, 1, 1]
        )[0]
        host = self.random.choices([f"127.0.0.1:{self.port}", "example.com", ""], [30, 1, 1])[0]
        lines = [f"{method.upper()} {target} HTTP/1.1", f"Host: {host}", "Connection: close"]
        lines += [f"Content-Type: {kind}"] if kind else []
        lines += [f"Content-Length: {len(body)}"] if body else []
        if self.random.random() < 0.1:
            key = self.random.choice(["a", "b", "", "k" * 300, "\xe9"])
            lines.append(f"Idempotency-Key: {key}")
        if self.random.random() < 0.03:
            lines.append("Origin: http://example.com")
        return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace") + body

    def _broken(self) -> tuple[bytes, bool]:
        """Something that is no request, or one of another server."""
        at = f"127.0.0.1:{self.port}".encode()
        path = bytes(self.random.choices(string.printable.encode()[:94], k=20))
        head = (
            b"POST /v1/faults HTTP/1.1\r\nHost: " + at + b"\r\nContent-Type: application/json\r\n"
        )
        close = b"Connection: close\r\n"
        found: list[bytes] = [
            b"GET /v1/" + path + b" HTTP/1.1\r\nHost: " + at + b"\r\n" + close + b"\r\n",
            b"BREW /v1/health HTTP/1.1\r\nHost: " + at + b"\r\n" + close + b"\r\n",
            b"GET /v1/../v1/health HTTP/1.1\r\nHost: " + at + b"\r\n" + close + b"\r\n",
            b"GET //v1//health HTTP/1.0\r\nHost: " + at + b"\r\n\r\n",
            b"GET /v1/health HTTP/1.1\r\n\r\n",
            b"GET http://example.com/v1/health HTTP/1.1\r\nHost: " + at + b"\r\n" + close + b"\r\n",
            b"GET /v1/health HTTP/1.1\r\n" + close + b"X: " + b"y" * 70_000 + b"\r\n\r\n",
            head + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
            head + b"Content-Length: -1\r\n\r\n{}",
            head + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
            head + b"Transfer-Encoding: chunked\r\n" + close + b"\r\n2\r\n{}\r\n0\r\n\r\n",
            head + b"Expect: 100-continue\r\nContent-Length: 2\r\n" + close + b"\r\n{}",
            b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03"
            + self.random.randbytes(50)
            + b"\r\n\r\n",
            self.random.randbytes(self.random.randrange(1, 200)) + b"\r\n\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"OPTIONS * HTTP/1.1\r\nHost: " + at + b"\r\n" + close + b"\r\n",
        ]
        return self.random.choice(found), True

    def _cut_off(self) -> tuple[bytes, bool]:
        """A request whose client goes away in the middle."""
        request, _ = self._declared()
        return request[: self.random.randrange(len(request))], True

    def _answer(self, request: bytes, *, reads: bool) -> bytes:
        with socket.create_connection(("127.0.0.1", self.port), TIMEOUT_S) as one:
            found = b""
            try:
                one.sendall(request)
                if not reads:
                    return b""
                while piece := one.recv(1 << 16):
                    found += piece
            except OSError:
                pass
            return found

    def _complaint(self, answer: bytes, *, may_be_silent: bool) -> str:
        if not answer:
            return "" if may_be_silent else "no answer"
        head, _, body = answer.partition(b"\r\n\r\n")
        first = head.split(b"\r\n")[0].split(b" ")
        if len(first) < 2 or not first[1].isdigit():
            return f"no HTTP: {answer[:80]!r}"
        status = int(first[1])
        self.statuses[status] += 1
        if status >= 500 and status != 503:
            return f"status {status}: {body[:300]!r}"
        if status >= 400 and b"application/problem+json" in head:
            told = json.loads(body)
            if (
                told["status"] != status
                or not told["title"]
                or "Traceback" in told.get("detail", "")
            ):
                return f"a problem that is none: {body[:300]!r}"
        elif status >= 400 and body != NO_HTTP and not may_be_silent:
            return f"status {status} without a problem: {body[:300]!r}"
        return ""


def _operations() -> list[tuple[str, str, Any]]:
    return [
        (path, method, one)
        for path, methods in OPENAPI["paths"].items()
        for method, one in methods.items()
        if one["operationId"] not in ENDLESS
    ]


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text.encode("utf-8", "replace").decode()
