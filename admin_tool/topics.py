"""jbodlab topics: list, describe, create, alter and delete topics."""

from __future__ import annotations

from admin_tool.topic_actions import changes, describe

VERBS = {
    "list": describe.LIST,
    "describe": describe.DESCRIBE,
    "create": changes.CREATE,
    "alter": changes.ALTER,
    "delete": changes.DELETE,
}
