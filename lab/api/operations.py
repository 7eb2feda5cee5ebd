"""Declarations of requests, each at the method that carries it out.

From them come routes, checks and the OpenAPI document.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, get_type_hints

import msgspec

JSON = "application/json"
HTML = "text/html"
TAR = "application/x-tar"
EVENTS = "text/event-stream"
Action = TypeVar("Action", bound=Callable[..., Any])
_DECLARED = "request"
BODY = "wanted"
"""Parameter of a method that gets the body."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One request.

    Attributes:
        method: Of HTTP.
        path: Below `/v1`, with the names of fields of `asked` in braces.
        name: Its `operationId`.
        summary: One line.
        run: Carries it out, given the object whose method it is, the fields and the body; blocks.
            None for the stream of events, which the server makes itself.
        asked: Fields of path and query.
        body: Value of the body; None where there is none.
        gives: Value of the answer; None where there is none, or it is not JSON.
        status: Of an answer.
        media: Type of the answer.
        errors: Statuses of problems, besides those that every request may have.
        once: Whether `Idempotency-Key` keeps it from being carried out twice.
    """

    method: str
    path: str
    name: str
    summary: str
    run: Callable[..., Any] | None
    asked: type
    body: Any = None
    gives: Any = None
    status: int = 200
    media: str = JSON
    errors: Sequence[int] = ()
    once: bool = False

    @property
    def is_change(self) -> bool:
        """Whether it changes something."""
        return self.method != "GET"


def request(method: str, path: str, *errors: int, **more: Any) -> Callable[[Action], Action]:
    """Declare that a method carries out a request.

    Its name is the request's, the first line of its docstring the summary. A parameter `wanted`
    gets the body, every other one a field of the path or the query.

    Args:
        method: Of HTTP.
        path: As in `Operation`.
        errors: As in `Operation`.
        more: Other attributes of `Operation`.
    """

    def declare(action: Action) -> Action:
        vars(action)[_DECLARED] = {"method": method, "path": path, "errors": errors, **more}
        return action

    return declare


get = partial(request, "GET")
post = partial(request, "POST")
put = partial(request, "PUT")
delete = partial(request, "DELETE")


def fields(name: str, **types: Any) -> type:
    """Return a value with fields of path and query, each a type or a type and its default."""
    given = [
        (word, *kind) if isinstance(kind, tuple) else (word, kind) for word, kind in types.items()
    ]
    return msgspec.defstruct(f"Of{name}", given, kw_only=True, forbid_unknown_fields=True)


def declared(owner: type) -> Iterator[Operation]:
    """Yield the requests that methods of a class carry out."""
    for action in vars(owner).values():
        told = getattr(action, "__dict__", {}).get(_DECLARED)
        if told is None:
            continue
        first, *rest = action.__name__.split("_")
        name = first + "".join(map(str.title, rest))
        types = get_type_hints(action, include_extras=True)
        gives, body = types.pop("return"), types.pop(BODY, None)
        defaults = {
            word: (types[word], one.default)
            for word, one in inspect.signature(action).parameters.items()
            if word in types and one.default is not one.empty
        }
        yield Operation(
            name=name,
            summary=action.__doc__.partition("\n")[0].rstrip("."),
            run=action,
            asked=fields(name, **{**types, **defaults}),
            gives=None if gives in (bytes, type(None)) else gives,
            **{"body": body, **told},
        )
