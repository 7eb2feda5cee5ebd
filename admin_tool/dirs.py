"""`jbodlab dirs`: log directories, their replicas, and what an operator does about them."""

from __future__ import annotations

from admin_tool.log_dir_actions import balance, cordon, describe, drain, move, revive

VERBS = {
    "list": describe.LIST,
    "describe": describe.DESCRIBE,
    "revive": revive.REVIVE,
    "cordon": cordon.CORDON,
    "uncordon": cordon.UNCORDON,
    "move": move.MOVE,
    "drain": drain.DRAIN,
    "balance": balance.BALANCE,
}
