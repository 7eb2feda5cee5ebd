"""jbodlab reassign: move replicas between brokers and log directories, by Kafka's JSON file.

{"version":1,"partitions":[
   {"topic":"orders","partition":0,"replicas":[1,2],"log_dirs":["/mnt/d1","any"]}]}
"""

from __future__ import annotations

from admin_tool.reassignment import changes, reads

VERBS = {
    "list": reads.LIST,
    "generate": reads.GENERATE,
    "execute": changes.EXECUTE,
    "verify": reads.VERIFY,
    "cancel": changes.CANCEL,
}
