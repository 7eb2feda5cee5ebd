"""Random records, made from their declarations."""

from __future__ import annotations

from uuid import UUID

from hypothesis import strategies as st

from jbodlab.kafka_wire.kinds import Form, Kind
from jbodlab.kafka_wire.schema import Struct, field_specs
from jbodlab.metadata.records.registry import RECORD_TYPES
from jbodlab.metadata.records.schema import Record

_NUMBERS = {
    "?": st.booleans(),
    "b": st.integers(-(2**7), 2**7 - 1),
    "h": st.integers(-(2**15), 2**15 - 1),
    "H": st.integers(0, 2**16 - 1),
    "i": st.integers(-(2**31), 2**31 - 1),
    "q": st.integers(-(2**63), 2**63 - 1),
    "d": st.floats(allow_nan=False),
}
_FEW_IDS = st.sampled_from([UUID(int=0), UUID(int=1), UUID(int=(1 << 127) + 5)])


def values(kind: Kind, version: int) -> st.SearchStrategy[object]:
    """Return values of a kind."""
    strategy: st.SearchStrategy[object]
    match kind.form:
        case Form.FIXED:
            strategy = _NUMBERS[kind.code]
            if kind.code not in "?d":
                strategy |= st.integers(0, 3)
        case Form.UUID:
            strategy = _FEW_IDS | st.uuids()
        case Form.STRING:
            strategy = st.text(max_size=12) | st.just("x" * 200)
        case Form.BYTES:
            strategy = st.binary(max_size=12)
        case Form.ARRAY:
            assert kind.element is not None
            strategy = st.lists(values(kind.element, version), max_size=4).map(tuple)
        case Form.STRUCT:
            assert kind.struct is not None
            strategy = structs(kind.struct, version)
    return st.none() | strategy if kind.nullable else strategy


UNKNOWN_TAGS = st.just(()) | st.lists(
    st.tuples(st.integers(20, 200), st.binary(max_size=4)), max_size=2, unique_by=lambda t: t[0]
).map(lambda tags: tuple(sorted(tags)))


def structs(
    cls: type[Struct],
    version: int,
    unknown_tags: st.SearchStrategy[tuple[tuple[int, bytes], ...]] = UNKNOWN_TAGS,
) -> st.SearchStrategy[Struct]:
    """Return values of a struct in one version, some of their fields at the default."""
    fields = {
        spec.name: st.just(spec.default) | values(spec.kind, version)
        for spec in field_specs(cls)
        if spec.since <= version
    }
    return st.builds(cls, unknown_tags=unknown_tags, **fields)


def versioned_records() -> st.SearchStrategy[tuple[Record, int]]:
    """Return records of every type in every version."""
    return st.one_of(
        st.tuples(structs(cls, version), st.just(version))  # type: ignore[arg-type]
        for cls in RECORD_TYPES.values()
        for version in range(cls.HIGHEST_VERSION + 1)
    )
