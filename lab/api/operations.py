"""Declarations of all requests: from them come routes, checks and the OpenAPI document."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from lab.api import values
from lab.api.values import Empty

if TYPE_CHECKING:
    from lab.api.served import Served

JSON = "application/json"
HTML = "text/html"
TAR = "application/x-tar"
EVENTS = "text/event-stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One request.

    Attributes:
        method: Of HTTP.
        path: Below `/v1`, with the names of fields of `asked` in braces.
        name: Its `operationId`.
        summary: One line.
        run: Carries it out, given what is served, what the path and the query say, and the body;
            blocks. None for the stream of events, which the server makes itself.
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
    run: Callable[[Served, Any, Any], Any] | None
    asked: type = Empty
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


_get = partial(Operation, method="GET")
_post = partial(Operation, method="POST")
_delete = partial(Operation, method="DELETE")
ACTS = {
    "start": "Start {} where it does not run",
    "stop": "Stop {} in order",
    "kill": "Kill {} with SIGKILL",
    "freeze": "Freeze {} with SIGSTOP",
    "thaw": "Let {} go on after `freeze`",
}


def _acts(role: str, asked: type, gives: type) -> list[Operation]:
    def run(act: str) -> Callable[[Served, Any, Any], Any]:
        return lambda served, asked, _: served.actions.act(act, role, asked)

    return [
        _post(
            path=f"/{role}s/{{{role}}}/{act}", name=f"{act}{role.title()}", asked=asked,
            summary=text.format(f"a {role}"), run=run(act), gives=gives, errors=(404, 409),
        )
        for act, text in ACTS.items()
    ]  # fmt: skip


# fmt: off
OPERATIONS: Sequence[Operation] = (
    _get(
        path="/health", name="getHealth", summary="Tell whether the cluster is well",
        run=lambda served, *_: served.actions.health(), gives=values.Health,
    ),
    _get(
        path="/cluster", name="getCluster", summary="Describe the cluster",
        run=lambda served, *_: served.actions.cluster(), gives=values.Cluster, errors=(409,),
    ),
    Operation(
        method="PUT", path="/cluster", name="replaceCluster",
        summary="End the cluster, and start another one in its place",
        run=lambda served, _, body: served.replace(body), body=values.NewCluster,
        gives=values.Cluster, errors=(409,),
    ),
    _get(
        path="/client-config", name="getClientConfig",
        summary="Return the settings by which a client reaches the cluster",
        run=lambda served, asked, _: served.actions.client_config(asked), asked=values.OfClient,
        gives=values.ClientConfig, errors=(409,),
    ),
    _get(
        path="/brokers", name="listBrokers", summary="List the brokers with their log directories",
        run=lambda served, *_: served.actions.brokers(), gives=list[values.Broker], errors=(409,),
    ),
    _get(
        path="/brokers/{broker}", name="getBroker", summary="Describe a broker",
        run=lambda served, asked, _: served.actions.broker(asked), asked=values.OfBroker,
        gives=values.Broker, errors=(404, 409),
    ),
    *_acts("broker", values.OfBroker, values.Broker),
    _get(
        path="/controllers", name="listControllers", summary="List the controllers",
        run=lambda served, *_: served.actions.controllers(), gives=list[values.Controller],
        errors=(409,),
    ),
    *_acts("controller", values.OfController, values.Controller),
    _get(
        path="/directories", name="listDirectories",
        summary="List the log directories of all brokers",
        run=lambda served, *_: served.actions.directories(), gives=list[values.Directory],
        errors=(409,),
    ),
    _get(
        path="/directories/{broker}/{number}", name="getDirectory",
        summary="Describe a log directory",
        run=lambda served, asked, _: served.actions.directory(asked), asked=values.OfDirectory,
        gives=values.Directory, errors=(404, 409),
    ),
    _get(
        path="/topics", name="listTopics", summary="List the topics with leaders and replicas",
        run=lambda served, *_: served.actions.topics(), gives=list[values.Topic],
        errors=(409, 503),
    ),
    _post(
        path="/topics", name="createTopic", summary="Create a topic, and wait for its leaders",
        run=lambda served, _, body: served.actions.create_topic(body), body=values.NewTopic,
        gives=values.Topic, status=201, errors=(409, 503),
    ),
    _get(
        path="/topics/{topic}", name="getTopic", summary="Describe a topic",
        run=lambda served, asked, _: served.actions.topic(asked), asked=values.OfTopic,
        gives=values.Topic, errors=(404, 409, 503),
    ),
    _delete(
        path="/topics/{topic}", name="deleteTopic", summary="Delete a topic",
        run=lambda served, asked, _: served.actions.delete_topic(asked), asked=values.OfTopic,
        status=204, errors=(404, 409, 503),
    ),
    _get(
        path="/topics/{topic}/{partition}", name="getPartition", summary="Describe a partition",
        run=lambda served, asked, _: served.actions.partition(asked), asked=values.OfPartition,
        gives=values.Partition, errors=(404, 409, 503),
    ),
    _get(
        path="/kinds", name="listKinds", summary="List the kinds of faults",
        run=lambda served, *_: served.actions.kinds(), gives=list[values.Kind],
    ),
    _get(
        path="/faults", name="listFaults", summary="List the faults that are open, or all",
        run=lambda served, asked, _: served.actions.faults(asked), asked=values.ListedFaults,
        gives=list[values.Fault], errors=(409,),
    ),
    _post(
        path="/faults", name="createFault",
        summary="Break a directory, a broker or the cluster, and prove the effect",
        run=lambda served, _, body: served.actions.inject(body), body=values.NewFault,
        gives=values.Fault, status=201, errors=(404, 409, 422, 503), once=True,
    ),
    _get(
        path="/faults/{fault}", name="getFault", summary="Describe a fault",
        run=lambda served, asked, _: served.actions.fault(asked), asked=values.OfFault,
        gives=values.Fault, errors=(404, 409),
    ),
    _delete(
        path="/faults/{fault}", name="healFault",
        summary="Undo a fault, and bring back what it took",
        run=lambda served, asked, _: served.actions.heal_fault(asked), asked=values.OfFault,
        gives=values.Healed, errors=(404, 409, 503),
    ),
    _post(
        path="/heal", name="heal",
        summary="Undo every fault, start what has ended, and wait until all is well",
        run=lambda served, *_: served.actions.heal(), gives=values.Healed, errors=(409, 503),
    ),
    _get(
        path="/wait", name="wait", summary="Wait for a state of a fault, a topic or the cluster",
        run=lambda served, asked, _: served.actions.wait(asked), asked=values.Wait,
        gives=values.Waited, errors=(404, 409, 503),
    ),
    _get(
        path="/events", name="streamEvents", media=EVENTS,
        summary="Stream what happens: patches with `sections` of the live page, and `events`",
        run=None, errors=(503,),
    ),
    _get(
        path="/rehearsals", name="listRehearsals", summary="List the runs of plans",
        run=lambda served, *_: served.rehearsals.list(), gives=list[values.Rehearsal],
    ),
    _post(
        path="/rehearsals", name="createRehearsal",
        summary="Run a plan on a cluster of its own, or on this one where it says `attach`",
        run=lambda served, _, body: served.rehearsals.create(body), body=values.NewRehearsal,
        gives=values.Rehearsal, status=201, errors=(409,), once=True,
    ),
    _get(
        path="/rehearsals/{rehearsal}", name="getRehearsal",
        summary="Return progress and findings of a run",
        run=lambda served, asked, _: served.rehearsals.get(asked), asked=values.OfRehearsal,
        gives=values.Rehearsal, errors=(404,),
    ),
    _delete(
        path="/rehearsals/{rehearsal}", name="cancelRehearsal",
        summary="End a run that has not ended, after all is healed",
        run=lambda served, asked, _: served.rehearsals.cancel(asked), asked=values.OfRehearsal,
        gives=values.Rehearsal, errors=(404, 409),
    ),
    _get(
        path="/rehearsals/{rehearsal}/page", name="getRehearsalPage", media=HTML,
        summary="Return the page of a run",
        run=lambda served, asked, _: served.rehearsals.page(asked), asked=values.OfRehearsal,
        errors=(404, 409),
    ),
    _get(
        path="/what-if", name="getWhatIf",
        summary="Tell what the loss of a directory or broker would take",
        run=lambda served, asked, _: served.what_if(asked), asked=values.OfWhatIf,
        gives=dict[str, Any], errors=(404, 409, 503),
    ),
    _get(
        path="/what-if/page", name="getWhatIfPage", media=HTML,
        summary="Return the page of all losses", run=lambda served, *_: served.what_if_page(),
        errors=(409, 503),
    ),
    _get(
        path="/metadata-log", name="getMetadataLog", media=TAR,
        summary="Return the metadata log of the first controller as an archive",
        run=lambda served, *_: served.metadata_log(), errors=(409,),
    ),
    _get(
        path="/report", name="getReport", media=HTML,
        summary="Replay the metadata log, and return the report",
        run=lambda served, *_: served.report(), errors=(409, 503),
    ),
)
# fmt: on
