"""Which replicas of a broker move to which of its log directories; pure.

A plan never counts on room that its own moves set free: a replica is deleted at its source only
when its copy is complete, and copies are made side by side. So what comes into a directory must fit
beside all that is there at the beginning.

    drain      every replica out of one directory, evenly over the others
    balance    as few replicas as bring the bytes in all directories close to each other
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from jbodlab.kafka_admin.errors import AdminError
from jbodlab.vocabulary.ids import TopicPartition

HEADROOM_DIVISOR = 50
"""This part of a file system is left free: full directories take no more records."""

BALANCED_DIVISOR = 20
"""Directories are even when none is further from another than this part of their mean."""

SEARCH_STEPS_MAX = 20_000
"""How long to look for a way to fit everything when the simple ones fail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DirState:
    """One online directory at the beginning.

    Attributes:
        sizes: Bytes of the replicas that may be moved.
        settled_bytes: Bytes of others that belong here: those on their way in.
        room_bytes: Bytes that may come in; 0 where nothing may.
        takes: Whether anything may come in.
    """

    path: str
    sizes: Mapping[TopicPartition, int] = field(default_factory=dict)
    settled_bytes: int = 0
    room_bytes: int = 0
    takes: bool = True

    @property
    def held_bytes(self) -> int:
        """Bytes that belong to this directory."""
        return self.settled_bytes + sum(self.sizes.values())


class Move(NamedTuple):
    """A replica that changes its directory."""

    partition: TopicPartition
    source: str
    target: str
    size_bytes: int


_Rank = Callable[[str, int], tuple[int | str, ...]]
"""Orders directories by path and room; the least is taken."""


class DoesNotFitError(AdminError):
    """There is not enough room for all replicas that have to move."""


def room_bytes(usable_bytes: int, total_bytes: int, coming_bytes: int) -> int:
    """Return what may come into a directory, beside what is on its way."""
    return max(0, usable_bytes - total_bytes // HEADROOM_DIVISOR - coming_bytes)


def drain(dirs: Sequence[DirState], path: str) -> list[Move]:
    """Return the moves that empty a directory, the largest replica first.

    Args:
        dirs: All online directories of the broker.
        path: The one to empty; one of them.

    Raises:
        DoesNotFitError: the others have no room; the text has the figures of each.
    """
    source = next(one for one in dirs if one.path == path)
    others = [one for one in dirs if one.path != path and one.takes]
    leaving = _by_size(source.sizes)
    if not leaving:
        return []
    held = {one.path: one.held_bytes for one in others}
    placed = (
        # Each where least is, as far as it fits there.
        _placed(leaving, others, lambda path, room: (held[path], -room, path), held)
        # Each where it leaves the least room, so that large ones find some.
        or _placed(leaving, others, lambda path, room: (room, path), {})
        or _placed_by_search(leaving, others)
    )
    if placed is None:
        raise DoesNotFitError(_figures(source, [one for one in dirs if one.path != path]))
    return [Move(name, path, placed[name], size) for name, size in leaving]


def balance(dirs: Sequence[DirState]) -> list[Move]:
    """Return the moves that bring the directories close to each other; the largest first.

    Every step takes a replica from a fuller directory to an emptier one, or exchanges two, such
    that the directories come closer. So the sum of the squares of all bytes falls with each, and
    the steps end.
    """
    return _Balancer(dirs).moves()


def spread_bytes(held_bytes: Sequence[int]) -> int:
    """Return how far the fullest directory is from the emptiest."""
    return max(held_bytes) - min(held_bytes) if held_bytes else 0


def held_after(dirs: Sequence[DirState], moves: Sequence[Move]) -> dict[str, int]:
    """Return the bytes in each directory when all moves are done."""
    held = {one.path: one.held_bytes for one in dirs}
    for move in moves:
        held[move.source] -= move.size_bytes
        held[move.target] += move.size_bytes
    return held


def _by_size(sizes: Mapping[TopicPartition, int]) -> list[tuple[TopicPartition, int]]:
    return sorted(sizes.items(), key=lambda item: (-item[1], item[0]))


Placement = dict[TopicPartition, str]


def _placed(
    leaving: Sequence[tuple[TopicPartition, int]],
    others: Sequence[DirState],
    rank: _Rank,
    held: dict[str, int],
) -> Placement | None:
    room = {one.path: one.room_bytes for one in others}
    placed: Placement = {}
    for name, size in leaving:
        fitting = [path for path in room if room[path] >= size]
        if not fitting:
            return None
        target = min(fitting, key=lambda path: rank(path, room[path]))
        placed[name] = target
        room[target] -= size
        if target in held:
            held[target] += size
    return placed


def _placed_by_search(
    leaving: Sequence[tuple[TopicPartition, int]], others: Sequence[DirState]
) -> Placement | None:
    """Try every way, as long as that is bearable."""
    if sum(size for _, size in leaving) > sum(one.room_bytes for one in others):
        return None
    room = {one.path: one.room_bytes for one in others}
    targets: list[str] = []
    options: list[Iterator[str]] = []
    for _ in range(SEARCH_STEPS_MAX):
        if len(targets) == len(leaving):
            return {name: path for (name, _), path in zip(leaving, targets, strict=True)}
        if len(options) == len(targets):
            size = leaving[len(targets)][1]
            # Directories with the same room would lead to the same ends.
            distinct = {room[path]: path for path in room if room[path] >= size}
            options.append(iter([distinct[each] for each in sorted(distinct)]))
        path = next(options[-1], None)
        if path is not None:
            room[path] -= leaving[len(targets)][1]
            targets.append(path)
            continue
        options.pop()
        if not options:
            return None
        path = targets.pop()
        room[path] += leaving[len(targets)][1]
    return None


def _figures(source: DirState, others: Sequence[DirState]) -> str:
    size = sum(source.sizes.values())
    largest = max(source.sizes.values())
    room = ", ".join(
        f"{one.path} {f'has room for {one.room_bytes} bytes' if one.takes else 'takes nothing'}"
        for one in others
    )
    missing = size - sum(one.room_bytes for one in others if one.takes)
    return (
        f"{source.path} does not fit into the other log directories: {len(source.sizes)} replicas "
        f"with {size} bytes, the largest with {largest} bytes; {room or 'there are none'}"
        + (f"; {missing} bytes are missing" if missing > 0 else "")
    )


_Chosen = tuple[TopicPartition, TopicPartition | None]
"""A replica that leaves a directory, and one that takes its place."""

_Choice = Callable[[str, str, int], _Chosen | None]
"""Chooses for two directories and the distance between them; None where nothing helps."""


class _Balancer:
    """The course of one balancing; sizes and paths only."""

    def __init__(self, dirs: Sequence[DirState]) -> None:
        self._dirs = {one.path: one for one in dirs}
        self._held = {one.path: one.held_bytes for one in dirs}
        self._room = {one.path: one.room_bytes if one.takes else 0 for one in dirs}
        self._home = {name: one.path for one in dirs for name in one.sizes}
        self._size = {name: size for one in dirs for name, size in one.sizes.items()}
        self._here = {one.path: {n for n, size in one.sizes.items() if size} for one in dirs}
        mean = sum(self._held.values()) / max(len(self._held), 1)
        self._even_bytes = mean / BALANCED_DIVISOR

    def moves(self) -> list[Move]:
        while spread_bytes(list(self._held.values())) > self._even_bytes:
            if not (self._step(self._best) or self._step(self._best_exchange)):
                break
        moved = [
            Move(name, self._home[name], path, self._size[name])
            for path, names in self._here.items()
            for name in names
            if self._home[name] != path
        ]
        return sorted(moved, key=lambda move: (-move.size_bytes, move.partition))

    def _step(self, choose: _Choice) -> bool:
        """Bring two directories closer, the fullest and the emptiest first; False if none are."""
        fullest_first = sorted(self._held, key=lambda path: (-self._held[path], path))
        for source in fullest_first:
            for target in reversed(fullest_first):
                distance = self._held[source] - self._held[target]
                if distance <= 0:
                    break
                chosen = choose(source, target, distance)
                if chosen is not None:
                    there, back = chosen
                    self._move(there, source, target)
                    if back is not None:
                        self._move(back, target, source)
                    return True
        return False

    def _best(self, source: str, target: str, distance: int) -> _Chosen | None:
        """Return the replica that comes closest to half of the distance, and fits."""
        best: tuple[int, TopicPartition] | None = None
        for name in self._here[source]:
            size = self._size[name]
            if size < distance and self._fits(name, target):
                rank = (abs(distance - 2 * size), name)
                best = rank if best is None else min(best, rank)
        return None if best is None else (best[1], None)

    def _best_exchange(self, source: str, target: str, distance: int) -> _Chosen | None:
        """Return two replicas whose exchange does, if it is worth the bytes that are copied."""
        theirs = sorted((self._size[name], name) for name in self._here[target])
        best: tuple[int, TopicPartition, TopicPartition] | None = None
        for name in self._here[source]:
            if not self._fits(name, target):
                continue
            size = self._size[name]
            # The sizes around the one that would make both equal.
            near = bisect_left(theirs, (size - distance // 2,))
            for other_size, other in theirs[max(near - 1, 0) : near + 1]:
                gain = size - other_size
                is_closer = 0 < gain < distance and 2 * gain >= self._even_bytes
                if is_closer and self._fits(other, source):
                    rank = (abs(distance - 2 * gain), name, other)
                    best = rank if best is None else min(best, rank)
        return None if best is None else (best[1], best[2])

    def _fits(self, name: TopicPartition, target: str) -> bool:
        # One that goes home needs no room, as it has never left.
        if self._home[name] == target:
            return True
        return self._dirs[target].takes and self._size[name] <= self._room[target]

    def _move(self, name: TopicPartition, source: str, target: str) -> None:
        size = self._size[name]
        self._here[source].remove(name)
        self._here[target].add(name)
        self._held[source] -= size
        self._held[target] += size
        if self._home[name] != source:
            self._room[source] += size
        if self._home[name] != target:
            self._room[target] -= size
