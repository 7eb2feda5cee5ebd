"""`python -m bench`: every measurement, as one table and as JSON in bench/results/."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

from bench import measure
from bench.alone import alone
from bench.attacks import attacks
from bench.batch_checks import measure_batch_checks
from bench.cleaner import cleaning
from bench.client_gaps import client_gaps
from bench.decode import measure_decode
from bench.encrypted import connections, encrypted_requests, encrypted_throughput
from bench.groups import BOTH, COORDINATOR, PARTITION, crowds, group_gaps, loading
from bench.measure import MAKE
from bench.moves import moves
from bench.partitions import many_partitions
from bench.replay_sizes import measure_replay_sizes
from bench.slow_disks import slow_disks
from bench.spark_replay import measure_spark_replay
from bench.transactions import (
    LONG_MS,
    Gap,
    StepGaps,
    commit_gaps,
    commits,
    long_transactions,
)
from lab.machine.waiting import NotInTimeError
from tests.clients.programs import BY_DEFAULT
from tests.cluster.harness import made
from tests.cluster.small_disks import why_no_mounts
from tests.kafka.jars import CACHE, NoKafkaError
from tests.kafka.servers import KafkaServers
from tests.kafka.tools import KafkaTools

RESULTS = Path(__file__).parent / "results"
SIZES = (100, 1_000, 10_000)
FACTORS = (1, 3)
FAULTS = ("permission", "read-only-bits", "file-in-place", "deleted")

MOVE_RUNS = 5
SYNC_MS = 5.0
"""Of disks under many partitions."""
SYNC_DELAYS_MS = (10.0, 40.0)
SLOW_PARTITIONS = 300
PARTS = (
    *("start", "failover", "throughput", "requests", "alone", "slow disks", "partitions"),
    *("cleaner", "tls", "clients", "groups", "transactions", "transaction gaps", "moves", "decode"),
    *("replay sizes", "spark", "checks", "attacks"),
)
REQUESTS, REQUEST_RUNS = 80_000, 3
ALONE = ((1, 1), (3, -1))
"""Replication factor and acks of one client that waits for each answer."""
ALONE_PAUSES_MS = (0.0, 3.0)
CLEANED_VALUE_BYTES = (100, 1_000)
ATTACK_UNITS = "others wait (loop busy) at most, ms; memory before / most / after, MB"

Row = tuple[str, str]


def main() -> int:
    """Measure what was asked for; returns the exit code."""
    arguments = parse()
    makers: dict[str, MAKE] = {"jbodlab": made}
    tools = None if arguments.kafka is None else KafkaTools(cache=arguments.kafka)
    if tools is not None:
        makers["kafka"] = partial(made, servers=KafkaServers(tools))
    report: dict[str, Any] = {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": {"cores": os.cpu_count(), "python": platform.python_version()},
    }
    rows: list[Row] = []
    if arguments.only in (None, "checks"):
        checks = list(measure_batch_checks())
        report["checks"] = [asdict(check) for check in checks]
        rows += [(f"check of a batch, {check.name}, us", check.text) for check in checks]
    if arguments.only in (None, "moves"):
        report["moves"] = measure_moves(arguments.move_megabytes, rows)
    if arguments.only in (None, "attacks"):
        found_attacks = list(attacks(made, arguments.attack))
        report["attacks"] = [asdict(attack) for attack in found_attacks]
        rows += [(f"{each.name}: {ATTACK_UNITS}", each.text) for each in found_attacks]
    if arguments.only not in ("checks", "decode", "moves", "replay sizes", "spark", "attacks"):
        for name, make in makers.items():
            report[name] = measure_all(name, make, arguments, rows)
    if arguments.only in (None, "groups"):
        loads = list(loading())
        report["loading"] = [asdict(one) for one in loads]
        rows += [
            (f"1 M commits loaded, {one.per_batch} a batch, CPU s", f"{one.seconds:.1f}")
            for one in loads
        ]
    if arguments.only in (None, "decode"):
        found = measure_decode(arguments.records, None if tools is None else tools.jars)
        report["decode"] = [asdict(run) for run in found]
        rows += [(f"{run.records} records: {run.name}", run.text) for run in found]
    if arguments.only in (None, "replay sizes"):
        sizes = measure_replay_sizes(arguments.records // 4)
        report["replay sizes"] = [asdict(size) for size in sizes]
        rows += [(f"replay, {size.times} times", size.text) for size in sizes]
    if arguments.only in (None, "spark"):
        replays = list(measure_spark_replay(arguments.records))
        report["spark"] = [asdict(replay) for replay in replays]
        rows += [(f"{each.records} records by Spark, {each.name}", each.text) for each in replays]
    if tools is not None:
        tools.close()
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{time.strftime('%Y%m%dT%H%M%S')}.json"
    path.write_text(json.dumps(report, indent=1))
    width = max(len(label) for label, _ in rows)
    print("\n".join(f"{label:<{width}}  {value}" for label, value in rows))
    print(f"written to {path}")
    return 0


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--runs", type=int, default=20, help="failover runs of each side")
    parser.add_argument("--client-runs", type=int, default=10, help="failover runs of each client")
    parser.add_argument("--group-runs", type=int, default=10, help="of each directory of a group")
    parser.add_argument(
        "--transaction-runs", type=int, default=3, help="of dying directories under transactions"
    )
    parser.add_argument("--clients", nargs="+", choices=BY_DEFAULT, default=[*BY_DEFAULT])
    parser.add_argument("--megabytes", type=int, default=500, help="of messages per throughput")
    parser.add_argument("--partitions", type=int, default=3000, help="of the large cluster")
    parser.add_argument("--move-megabytes", type=int, default=1000, help="of a replica that moves")
    parser.add_argument("--clean-megabytes", type=int, default=300, help="of a log to compact")
    parser.add_argument("--records", type=int, default=1_000_000, help="of the metadata log")
    parser.add_argument(
        "--kafka",
        metavar="FOLDER",
        type=Path,
        nargs="?",
        const=CACHE,
        help="measure Kafka too, its jars kept there (default: where the tests keep them)",
    )
    parser.add_argument("--only", choices=PARTS, help="one part of it all")
    parser.add_argument("--attack", default="", help="only those attacks whose name has this in it")
    return parser.parse_args()


def measure_all(
    name: str,
    make: MAKE,
    arguments: argparse.Namespace,
    rows: list[Row],
) -> dict[str, Any]:
    """Measure one kind of cluster and add its rows to the table."""
    found: dict[str, Any] = {}
    if arguments.only in (None, "start"):
        found["start"] = measure_start(name, make, rows)
    if arguments.only in (None, "failover"):
        found["failover"] = measure_failover(name, make, arguments.runs, rows)
    has_kcat = shutil.which("kcat") is not None
    if not has_kcat and arguments.only in (None, "throughput", "requests", "tls"):
        print(
            "kcat is not installed: no throughput, no requests and no TLS are measured",
            file=sys.stderr,
        )
    if has_kcat and arguments.only in (None, "throughput"):
        found["throughput"] = measure_throughput(name, make, arguments.megabytes, rows)
    if has_kcat and arguments.only in (None, "requests"):
        found["requests"] = measure_requests(name, make, rows)
    if arguments.only in (None, "alone"):
        found["alone"] = measure_alone(name, make, rows)
    if has_kcat and arguments.only in (None, "tls"):
        found["tls"] = measure_tls(name, make, arguments.megabytes, rows)
    if arguments.only in (None, "slow disks"):
        found["slow disks"] = [
            measure_slow_disks(name, make, delay_ms, rows) for delay_ms in SYNC_DELAYS_MS
        ]
    if arguments.only in (None, "partitions"):
        found["partitions"] = measure_partitions(name, make, arguments.partitions, rows)
    if arguments.only in (None, "cleaner"):
        found["cleaner"] = [
            measure_cleaner(name, make, arguments.clean_megabytes, size, rows)
            for size in CLEANED_VALUE_BYTES
        ]
    if arguments.only in (None, "groups"):
        found["groups"] = measure_groups(name, make, arguments.group_runs, rows)
    if arguments.only in (None, "transactions"):
        found["transactions"] = measure_transactions(name, make, rows)
    if arguments.only in (None, "transaction gaps"):
        runs = arguments.transaction_runs
        found["transaction gaps"] = measure_transaction_gaps(name, make, runs, rows)
    if arguments.only in (None, "clients"):
        found["clients"] = {
            library: measure_client(name, make, library, arguments.client_runs, rows)
            for library in arguments.clients
        }
    return found


def measure_moves(megabytes: int, rows: list[Row]) -> list[dict[str, Any]]:
    """Move a replica between two mounts, of memory and of disks; root only."""
    if reason := why_no_mounts():
        print(f"no moves are measured: {reason}", file=sys.stderr)
        return []
    found = []
    for file_system in ("tmpfs", "ext4"):
        one = moves(file_system, megabytes, MOVE_RUNS)
        label = f"move of {one.size_mb:.0f} MB, {file_system}"
        move, plain = mean(one.move_mb_s), mean(one.cp_mb_s)
        rows.append((f"{label}, MB/s", f"{move:.0f}  ({move / plain:.0%} of cp, {plain:.0f})"))
        rows.append((f"{label}, cp with sync, MB/s", f"{mean(one.cp_synced_mb_s):.0f}"))
        quiet = f"p50 {one.quiet_p50_ms:.1f}  p99 {one.quiet_p99_ms:.1f}"
        beside_cp = f"p99 {one.cp_p99_ms:.1f}"
        moving = f"p50 {one.moving_p50_ms:.1f}  p99 {one.moving_p99_ms:.1f}"
        rows.append((f"{label}, other partitions' acks before, ms", quiet))
        rows.append((f"{label}, other partitions' acks beside cp, ms", beside_cp))
        rows.append((f"{label}, other partitions' acks meanwhile, ms", moving))
        found.append(asdict(one))
    return found


def measure_partitions(name: str, make: MAKE, partitions: int, rows: list[Row]) -> dict[str, Any]:
    """Measure one cluster with many partitions."""
    one = many_partitions(make, partitions, SYNC_MS)
    label = f"{name}: {partitions} partitions, syncs of {SYNC_MS:.0f} ms"
    rows.append((f"{label}, created, s", f"{one.created_s:.1f}"))
    total = sum(one.resident_mb.values())
    rows.append((f"{label}, resident, 4 processes, MB", f"{total:.0f}"))
    rows.append((f"{label}, idle, processors", f"{one.idle_cpu:.2f}"))
    acks = f"p50 {one.ack_p50_ms:.1f}  p99 {one.ack_p99_ms:.1f}"
    rows.append((f"{label}, one message to acks=all, ms", acks))
    rows.append((f"{label}, clean stop of a broker, s", f"{one.stop_s:.1f}"))
    restart = f"{one.restart_s:.1f}  (in every ISR {one.isr_s:.1f})"
    rows.append((f"{label}, restart of a broker, s", restart))
    leaders = f"{one.last_leader_ms:.0f}  ({one.moved} leaders, {one.brokers_seen} brokers alive)"
    rows.append((f"{label}, chmod 000 to the last new leader, ms", leaders))
    rows.append((f"{label}, chmod 000 to the last written again, ms", f"{one.last_written_ms:.0f}"))
    rows.append((f"{label}, longest gap of one of them, ms", f"{one.longest_gap_ms:.0f}"))
    return asdict(one)


def measure_cleaner(
    name: str, make: MAKE, megabytes: int, value_bytes: int, rows: list[Row]
) -> dict[str, Any]:
    """Compact one log."""
    one = cleaning(make, megabytes, value_bytes)
    label = f"{name}: compaction of {one.size_mb:.0f} MB, values of {value_bytes} bytes"
    rows.append((f"{label}, MB/s", f"{one.mb_s:.1f}"))
    quiet = f"p50 {one.quiet_p50_ms:.1f}  p99 {one.quiet_p99_ms:.1f}"
    busy = f"p50 {one.cleaning_p50_ms:.1f}  p99 {one.cleaning_p99_ms:.1f}"
    rows.append((f"{label}, other partitions' acks before, ms", quiet))
    rows.append((f"{label}, other partitions' acks meanwhile, ms", busy))
    return asdict(one)


def measure_slow_disks(name: str, make: MAKE, delay_ms: float, rows: list[Row]) -> dict[str, Any]:
    """Measure one cluster whose syncs take long."""
    one = slow_disks(make, SLOW_PARTITIONS, delay_ms)
    label = f"{name}: {one.partitions} partitions, syncs of {delay_ms:.0f} ms"
    rows.append((f"{label}, created, s", f"{one.created_s:.1f}"))
    for what, outage in (("kill -9", one.killed), ("chmod 000", one.closed)):
        text = (
            f"{outage.leaders_s:.1f} / {outage.acknowledged_s:.1f}  ({outage.partitions} leaders; "
            f"{outage.after_leader_s:.2f} after each one's new leader at most)"
        )
        rows.append((f"{label}, {what} to the last leader / acknowledgement, s", text))
    rows.append((f"{label}, {one.moved} replicas to another directory, s", f"{one.moved_s:.1f}"))
    rows.append(
        (f"{label}, clean stop / start to every ISR, s", f"{one.stop_s:.1f} / {one.isr_s:.1f}")
    )
    rows.append((f"{label}, healthy directories given up", str(one.given_up)))
    return asdict(one)


def measure_start(name: str, make: MAKE, rows: list[Row]) -> list[dict[str, Any]]:
    """Start five times."""
    starts = [measure.start(make) for _ in range(5)]
    total = [sum(one.resident_mb.values()) for one in starts]
    rows.append((f"{name}: start, s", span([one.ready_s for one in starts], 2)))
    rows.append((f"{name}: resident, 4 processes, MB", span(total, 0)))
    each = {node: f"{mb:.0f}" for node, mb in starts[-1].resident_mb.items()}
    rows.append((f"{name}: resident, each process, MB", str(each)))
    return [asdict(one) for one in starts]


def measure_failover(
    name: str, make: MAKE, runs: int, rows: list[Row]
) -> dict[str, list[dict[str, Any]]]:
    """Break a directory on either side, the kinds of fault in turn."""
    found: dict[str, list[dict[str, Any]]] = {}
    for side in ("leader", "follower"):
        results = []
        for run in range(runs):
            kind = FAULTS[run % len(FAULTS)]
            results.append(measure.failover(make, kind, leader_side=side == "leader"))
            print(f"{name} {side} {kind}: {results[-1]}", file=sys.stderr)
        for what in ("new_leader_ms", "first_ack_ms", "longest_gap_ms"):
            values = [float(getattr(one, what)) for one in results]
            text = f"p50 {measure.median(values):.0f}  p99 {measure.percentile(values, 0.99):.0f}"
            rows.append((f"{name}: {side}'s directory, {what}", text))
        found[side] = [asdict(one) for one in results]
    return found


def measure_client(
    name: str, make: MAKE, library: str, runs: int, rows: list[Row]
) -> list[dict[str, Any]]:
    """Break the directory of a leader under one client library, the kinds of fault in turn."""
    gaps = []
    try:
        for gap in client_gaps(make, library, [FAULTS[run % len(FAULTS)] for run in range(runs)]):
            print(f"{name} {library} {gap}", file=sys.stderr, flush=True)
            gaps.append(gap)
    except NoKafkaError as error:
        print(f"{library} is not measured: {error}", file=sys.stderr)
    except NotInTimeError as error:
        print(f"{library}, run {len(gaps) + 1} of {runs}: {error}", file=sys.stderr)
    if not gaps:
        return []
    for what in ("produce", "consume"):
        during = span([getattr(one, f"{what}_s") for one in gaps], 2)
        before = max(getattr(one, f"quiet_{what}_s") for one in gaps)
        rows.append(
            (f"{name}: {library}, longest gap to {what}, s", f"{during}  before {before:.2f}")
        )
    sums = [
        sum(one.lost for one in gaps),
        sum(one.unread for one in gaps),
        sum(one.twice for one in gaps),
        sum(len(one.given_up) for one in gaps),
    ]
    label = f"{name}: {library}, records lost / unread / twice / given up"
    rows.append((label, " / ".join(map(str, sums))))
    return [asdict(one) for one in gaps]


def measure_groups(name: str, make: MAKE, runs: int, rows: list[Row]) -> dict[str, Any]:
    """Break directories under a consuming group, and let many members and groups come."""
    gaps = []
    for gap in group_gaps(make, runs):
        print(f"{name} {gap}", file=sys.stderr, flush=True)
        gaps.append(gap)
    for broken in (COORDINATOR, PARTITION, BOTH):
        some = [gap for gap in gaps if gap.broken == broken]
        label = f"{name}: group, directory dies: {broken}"
        for what in ("consumed", "committed"):
            values = [float(getattr(gap, f"{what}_s")) for gap in some]
            text = f"p50 {measure.median(values):.2f}  p99 {measure.percentile(values, 0.99):.2f}"
            before = max(getattr(gap, f"quiet_{what}_s") for gap in some)
            rows.append(
                (f"{label}, longest time without one {what}, s", f"{text}  before {before:.2f}")
            )
        rows.append((f"{label}, assigned anew", str(sum(gap.rebalances for gap in some))))
    one = crowds(make)
    rows.append((f"{name}: 1,000 members of 100 groups joined, s", f"{one.joined_s:.1f}"))
    rows.append((f"{name}: one more member of 100, rebalanced, s", f"{one.rebalanced_s:.1f}"))
    commits = f"{one.commits_per_s:.0f}  (p99 {one.commit_p99_ms:.0f} ms)"
    rows.append((f"{name}: commits of 50 members, per s", commits))
    rows.append((f"{name}: memory of one of 10,000 groups, KB", f"{one.groups_kb:.1f}"))
    return {"gaps": [asdict(gap) for gap in gaps], "crowds": asdict(one)}


def measure_transaction_gaps(
    name: str, make: MAKE, runs: int, rows: list[Row]
) -> list[list[dict[str, Any]]]:
    """Break directories under transactions, and tell what each side of the clients waited."""
    gaps = []
    try:
        for steps in commit_gaps(make, runs):
            for step in steps:
                print(f"{name} {step}", file=sys.stderr, flush=True)
            gaps.append(steps)
    except NotInTimeError as error:
        print(f"{name}, transaction gaps, run {len(gaps) + 1}: {error}", file=sys.stderr)
    for some in zip(*gaps, strict=True):
        label = f"{name}: transactions, {some[0].step}"
        rows.append((f"{label}: producers without a commit, s", _longest(some, "producers")))
        rows.append((f"{label}: readers without a record, s", _longest(some, "readers")))
        counts = (
            sum(one.aborted for one in some),
            sum(one.timed_out for one in some),
            sum(len(one.fatal) for one in some),
        )
        text = " / ".join(map(str, counts))
        rows.append((f"{label}: aborted / timed out / producers ended", text))
    return [[asdict(step) for step in steps] for steps in gaps]


def _longest(steps: Sequence[StepGaps], side: str) -> str:
    """Return the longest gap of one side in some runs, with whose it was and what ended it."""
    found: list[Gap | None] = [getattr(one, side) for one in steps]
    gaps = sorted((gap for gap in found if gap is not None), key=lambda gap: gap.length_s)
    if not gaps:
        return "all of it"
    least, most = gaps[0], gaps[-1]
    length = f"{most.length_s:.2f}"
    if len(gaps) > 1:
        length = f"{least.length_s:.2f} to {length}"
    if not most.ended_in:
        return f"{length}  ({most.who}, not ended)"
    end = "" if most.ended_in == most.step else f", ended when {most.ended_in}"
    return f"{length}  ({most.who}{end})"


def measure_transactions(name: str, make: MAKE, rows: list[Row]) -> dict[str, Any]:
    """Commit small transactions, and long ones."""
    committed = list(commits(make))
    for each in committed:
        text = f"{each.per_s:.0f}  (p50 {each.p50_ms:.1f} ms, p99 {each.p99_ms:.1f} ms)"
        rows.append((f"{name}: commits of {each.producers} producers, per s", text))
    long_mb_s = long_transactions(make)
    rows.append((f"{name}: one producer, transactions of {LONG_MS} ms, MB/s", f"{long_mb_s:.0f}"))
    return {"commits": [asdict(each) for each in committed], "long_mb_s": long_mb_s}


def measure_throughput(
    name: str, make: MAKE, megabytes: int, rows: list[Row]
) -> list[dict[str, Any]]:
    """Produce and consume in every size and replication factor."""
    found = []
    for factor in FACTORS:
        for size in SIZES:
            total = megabytes * 1_000_000 // (4 if size == SIZES[0] else 1)
            one = measure.throughput(make, size, factor, total)
            print(f"{name}: {one}", file=sys.stderr)
            rows.append(
                (
                    f"{name}: {size} B, RF {factor}, MB/s (server CPU s/GB)",
                    f"produce {one.produce_mb_s:.0f} ({one.produce_cpu_s_per_gb:.1f})  "
                    f"consume {one.consume_mb_s:.0f} ({one.consume_cpu_s_per_gb:.1f})",
                )
            )
            found.append(asdict(one))
    return found


def measure_tls(name: str, make: MAKE, megabytes: int, rows: list[Row]) -> dict[str, Any]:
    """Measure clusters that encrypt everything."""
    found: dict[str, Any] = {}
    for factor in FACTORS:
        one = encrypted_throughput(make, factor, megabytes * 1_000_000)
        label = f"{name}: TLS, {one.size_bytes} B, RF {factor}, MB/s (server CPU s/GB)"
        produce = f"produce {one.produce_mb_s:.0f} ({one.produce_cpu_s_per_gb:.1f})"
        consume = f"consume {one.consume_mb_s:.0f} ({one.consume_cpu_s_per_gb:.1f})"
        rows.append((label, f"{produce}  {consume}"))
        asked = encrypted_requests(make, factor, REQUESTS)
        label = f"{name}: TLS, one message a request, RF {factor}, requests/s (server CPU us each)"
        rows.append((label, f"{asked.requests_per_s:.0f}  ({asked.cpu_us:.0f})"))
        found[str(factor)] = asdict(one), asdict(asked)
    opened = connections(make)
    handshakes = f"{opened.handshakes_per_s:.0f}  ({opened.handshake_cpu_ms:.1f})"
    rows.append((f"{name}: TLS handshakes of one client, per s (server CPU ms each)", handshakes))
    rows.append((f"{name}: memory of an idle TLS connection, KB", f"{opened.idle_kb:.0f}"))
    return {**found, "connections": asdict(opened)}


def measure_requests(name: str, make: MAKE, rows: list[Row]) -> list[dict[str, Any]]:
    """Produce one message a request, several times."""
    found = []
    for factor in FACTORS:
        runs = [measure.requests(make, factor, REQUESTS) for _ in range(REQUEST_RUNS)]
        rate = span([one.requests_per_s for one in runs], 0)
        cpu = span([one.cpu_us for one in runs], 0)
        label = f"{name}: one message a request, RF {factor}, requests/s (server CPU us each)"
        rows.append((label, f"{rate}  ({cpu})"))
        found += [asdict(one) for one in runs]
    return found


def measure_alone(name: str, make: MAKE, rows: list[Row]) -> list[dict[str, Any]]:
    """Produce one message a request, with one client that waits for each answer."""
    found = [one for kind in ALONE for one in alone(make, *kind, ALONE_PAUSES_MS)]
    for one in found:
        label = (
            f"{name}: one client, RF {one.factor} acks={one.acks}, {one.pause_ms:.0f} ms between"
        )
        text = f"p50 {one.p50_ms:.2f}  p99 {one.p99_ms:.2f}  ({one.cpu_us:.0f})"
        rows.append((f"{label}, ms (server CPU us each)", text))
    return [asdict(one) for one in found]


def span(values: list[float], digits: int) -> str:
    """Median and range as text."""
    low, middle, high = min(values), measure.median(values), max(values)
    return f"{middle:.{digits}f}  ({low:.{digits}f} - {high:.{digits}f})"


if __name__ == "__main__":
    sys.exit(main())
