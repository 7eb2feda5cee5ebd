"""The protobuf messages of the controller's service, made from `controller.binpb`.

    messages.BrokerHeartbeatRequest(broker_id=1)
    messages.SERVICE.methods                       the methods, with their messages

The file is what `scripts/compile_proto.py` makes of `proto/`. Classes made at run time work with
any version of protobuf; generated ones refuse versions that are older than their compiler.
"""

from __future__ import annotations

import pkgutil
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_DATA = pkgutil.get_data(__package__, "controller.binpb")
assert _DATA is not None
_FILES = descriptor_pb2.FileDescriptorSet.FromString(_DATA)


def _pool() -> descriptor_pool.DescriptorPool:
    # Not the one that all packages of the process share: nobody else's names are in the way.
    pool = descriptor_pool.DescriptorPool()
    for file in _FILES.file:
        pool.Add(file)
    return pool


DESCRIPTOR = _pool().FindFileByName("jbodlab/controller_api/controller.proto")
SERVICE = DESCRIPTOR.services_by_name["Controller"]
_CLASSES = {
    name: message_factory.GetMessageClass(descriptor)
    for name, descriptor in DESCRIPTOR.message_types_by_name.items()
}


def __getattr__(name: str) -> Any:
    """Return the class of a message."""
    try:
        return _CLASSES[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
