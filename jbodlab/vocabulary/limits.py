"""The bounds of storage, the metadata log, connections and requests, each with what it costs."""

# Files of a directory.
OPEN_FILES_MAX = 4_096
"""`.log` files that a directory keeps open, one descriptor each; `broker.bounds.limits.divide`."""
INDEX_BYTES_MAX = 16 << 20
"""Memory of a directory for indexes that are kept between reads."""
READ_BYTES = 1 << 20
"""Bytes of one call that reads a file as a whole."""
WRITE_BACK_BYTES = 8 << 20
"""Bytes of a piece. A sync first hands a file to the disk in pieces, so that each call is short."""


# Logs.
POSITIONS_REMEMBERED_MAX = 64
"""Places in a log where a reader is expected next; consumers and followers read in sequence."""
SCAN_BLOCK_SIZE = 1 << 20
"""Bytes in memory while a segment is scanned; a single larger batch is read whole."""
SEARCH_BLOCK_BYTES = 4 << 20
"""Bytes in memory while a batch behind damage is searched."""
DAMAGED_COPY_BYTES = 8 << 20
"""Bytes of one call that copies a damaged tail."""


# Compaction.
COMPACTED_WRITE_BYTES = 1 << 20
"""Bytes of compacted batches that are collected for one write."""
FOLLOW_S = 0.05
"""Longest sleep of a round that its rate delays; then a changed rate counts."""
CLEANER_END_S = 5.0
"""Longest wait for a cleaner process that was told to end; then it is killed."""
CLEANER_LOOK_S = 0.05
"""Interval at which a running round is asked whether it shall go on."""


# Metadata log.
COPY_CHUNK_BYTES = 8 << 20
"""Bytes of one call that copies a metadata segment."""
LONG_PIECE_S = 0.05
"""Longest pause between two pieces of a snapshot: a slow disk alone leaves enough time."""


# Requests.
MAX_REQUEST_BYTES = 4 << 20
"""Bytes of a request without records: `MAX_REQUEST_ITEMS` topics with names of 80 letters. Clients
of Apache Kafka may send 100 MiB; only records are ever that large."""
MAX_REQUEST_ITEMS = 50_000
"""Items of all arrays of a request together, nested ones included: what a cluster of some 10,000
partitions needs where a request names all of them with their replicas."""
MAX_CHANGED_ITEMS = 20_000
"""The same for a request that the controller decides in one step: 10,000 partitions."""
LARGE_REQUEST_BYTES = 8 << 10
"""Bytes of a request from which on it takes turns with other large ones: the smallest items that
fit, some two thousand, are decoded, answered and encoded in a turn of the loop."""
SLICE_S = 0.005
"""Time of one slice of a large request; other requests wait that long, and one part longer."""
FIRST_SLICE_S = 0.0005
"""The same for the first slice, which needs no turn; many clients may ask at once."""


# Connections.
MAX_QUEUED_REQUESTS = 64
"""Requests of a connection that wait; then its socket is not read."""
MAX_QUEUED_BYTES = 2 << 20
"""Bytes of these requests."""
MAX_PIPELINED_REQUESTS = 8
"""Produce requests of a connection in progress."""
MAX_PIPELINED_BYTES = 8 << 20
"""Bytes of these requests."""
HELD_BYTES_AT_LEAST = 16 << 10
"""Bytes of requests that each connection may hold when the memory of all is full: enough for the
fetch of a follower."""
WRITE_HIGH_WATER_BYTES = 1 << 20
"""Bytes of responses that a client has not read; then its requests wait."""
CONNECTION_CLOSE_S = 5.0
"""Longest wait for a client to read the last responses of a connection that closes."""
ALERT_S_MAX = 0.5
"""Longest wait for a client to read why its handshake failed."""
LOGIN_S_MAX = 10.0
"""Longest time between two steps of a login, the first of which is its turn to be served."""
LOGIN_LOOK_S = 0.25
"""Time between two looks at connections that have not logged in."""
SILENT_LOGIN_S = 0.5
"""Time without a step after which a login makes room for connections that wait."""
LOGINS_MAX = 2_000
"""Connections of a listener that have not logged in; then it accepts no more for a while."""
LOGIN_BYTES_MAX = 64 << 20
"""Bytes of unfinished requests of these connections; then the silent ones are closed."""
ACCEPTED_MAX = 32
"""Connections that a listener accepts in one turn of the loop."""
ACCEPT_AGAIN_S = 0.05
"""Time after which a listener without room looks whether it has room again."""
CONNECTION_BYTES = 4 << 10
"""Memory of a silent connection, estimated."""
CONNECTIONS_KEPT_S = 10.0
"""Seconds whose connections an address may open at once: ten windows of Kafka's rate."""
CONNECTION_HELD_S_MAX = 1.0
"""Longest time that a connection above its rate is held before it is closed."""
TURN_SHARE_S = 0.005
"""Time in which requests start in one turn of the loop; the last of them may take longer."""
LISTENER_CLOSE_S = 1.0
"""Longest wait for connections to end when a listener closes."""
WAITING_CONNECTIONS_MAX = 512
"""Connections that wait to be served, one descriptor each."""
STALLED_MS = 30_000
"""Silence in the middle of a large request after which its connection is closed."""


# Other nodes.
PEER_TIMEOUT_S = 30.0
"""Longest wait for the response of another broker, if the caller names no time."""
PEER_IDLE_S = 10.0
"""Time after which an unused connection to another broker is closed: one descriptor."""
CALLS_MAX = 5_000
"""Calls of brokers in progress at the controller, streams included; more than its queue holds, so
that heartbeats get in."""
QUOTA_CLIENTS_MAX = 10_000
"""Clients or addresses whose use is remembered; if there are more, all are forgotten."""


# Metrics.
HTTP_HEAD_BYTES_MAX = 8 * 1024
"""Bytes of the head of an HTTP request."""
HTTP_REQUEST_S = 5.0
"""Longest wait for an HTTP request of a connection."""
HTTP_CONNECTIONS_MAX = 16
"""HTTP connections, one descriptor each."""
