"""The bounds of a broker, each with what it costs; `broker.bounds.resources` checks their sums.

Bounds of storage, connections and requests are in `jbodlab.vocabulary.limits`; those that a user
may set are configuration.
"""

# Descriptors.
RESERVE, RESERVE_PER_DIRECTORY = 96, 16
"""Descriptors for the process itself, and for the work in one directory: files that are open for
one call, checkpoints, copies, connections to the controller and to other brokers."""

# Memory.
PROCESS_BYTES = 96 << 20
"""Memory of a broker with few partitions that does nothing."""


# Replicas.
TAIL_BYTES_PER_PARTITION = 2 << 20
"""Memory for the newest batches of a partition, which followers read without the disk."""
TAIL_BYTES_MAX = 32 << 20
"""The same for all partitions together."""
MAX_CALL_BYTES = 16 << 20
"""Bytes of one write to a directory: reads of the directory wait for it."""
FULL_RETRY_S = 0.25
"""Pause before a change is tried again for which the disk had no space."""
ISR_UPDATE_RETRY_S = 0.05
"""Pause before an ISR change is proposed again that the controller did not accept."""
SUCCESSION_WAIT_MAX_S = 1.0
"""Longest wait for the next leader of requests without a time-out of their own: much longer than an
election takes, and shorter than any client waits."""
HEAD_START_S = 0.03
"""Wait before clients are sent to the next leader, which hears of its leadership about now."""
TOPIC_SETTINGS_REMEMBERED_MAX = 1_000
"""Different topic configs whose parsed settings are kept."""


# The controller.
CONTROLLER_ASK_S, CONTROLLER_PAUSE_S = 0.3, 0.05
"""Longest wait for the answers of all controllers to who is active, and the pause, with as much
again by chance, before they are asked once more."""

CONTROLLER_ANSWER_S = 2.0
"""Longest wait for one of these answers by a broker that goes on asking."""
CONTROLLER_OTHERS_S = 0.02
"""Longest wait for the other answers behind that of one that is active in a later epoch."""
CONTROLLER_LATE_S = 0.5
"""After which a call without an answer has the broker ask who is active now, among several."""
STREAM_LATE_S = 1.5
"""The same for the metadata stream, which says something each second."""


# Transactions.
MARKER_REQUESTS_MAX = 4
"""Requests with markers under way to the leaders in one directory; the next one waits for the
answers, and has all that has come meanwhile."""
MARKERS_AT_ONCE = 2_000
"""Markers of one request."""
MARKER_CONNECT_TIMEOUT_S = 2.0
"""Longest time to connect to a leader."""


# Produce.
RECORDS_BYTES_MAX = 64 << 20
"""Uncompressed bytes of the records of a batch, held by one of `CHECK_THREADS`. Kafka has no
limit."""
RECORDS_RATIO = 8
"""The same as a multiple of the batch's size, if that is more."""
RECORDS_AT_ONCE, BYTES_AT_ONCE = 2_000, 64 << 10
"""Uncompressed batches with more are checked on a thread: on the event loop they would take more
than about a millisecond."""
CHECK_THREADS = 2
"""Threads that check batches. Each may hold `RECORDS_BYTES_MAX`."""
APPENDED_AT_ONCE = 500
"""Batches of one request that are appended before other requests are served."""
REDIRECTS_REMEMBERED_S = 10.0
"""Time for which a client counts as redirected; no client keeps wrong metadata for longer."""
REDIRECTS_REMEMBERED_MAX = 10_000
"""Redirected partitions of clients that are remembered; the oldest are forgotten."""
FORWARDED_MAX = 100
"""Forwarded requests in progress. Their memory is that of the clients' requests."""
FORWARD_CONNECT_TIMEOUT_S = 2.0
"""Longest time to connect to another leader."""
ANSWER_SLACK_S = 1.0
"""Time for another leader to respond beyond the time-out of the forwarded request."""
ADMISSION_RETRY_MAX_S = 2.0
"""For how long the coordinator of a transaction is asked again, because it completes the last one
or has moved. The producer then tries again, some after 5 s."""
TRANSACTION_ASK_MAX_S = 2.0
"""Longest time for the coordinator of a transaction to say whether it has a partition. A producer
then tries again, as it does for a coordinator that is being loaded."""
NEXT_COORDINATOR_MAX_S = 2.0
"""Longest time for which a producer's request waits for the next coordinator: longer than an
election and a load take, and shorter than clients wait."""
MARKERS_TIMEOUT_MS = 5_000
"""Longest wait until the markers of transactions are replicated; coordinators write them again."""
ANSWER_MAX_S = 30.0
"""Longest time for another leader to respond, connecting included."""


# Fetch.
ENTRIES_FEW = 500
"""Partitions of a waiting fetch up to which it is checked at each append."""
ASKED_PER_ENTRY_S = 20e-6
"""Pause for each partition between two checks of a larger one, so that it takes little of the
event loop."""
READ_WAIT_MAX_S = 1.0
"""Longest wait of a response for one of its disks."""
PART_ENTRIES = 200
"""Partitions that are processed in one turn of the event loop."""
SESSIONS_MAX = 1_000
"""Fetch sessions, as `max.incremental.fetch.session.cache.slots`. The longest unused one goes."""
UNUSED_MAX_MS = 60_000
"""Time after which an unused fetch session ends; a living follower fetches many times as often."""
DESCRIBE_DEADLINE_S = 3.0
"""Longest wait of DescribeLogDirs for one directory."""


# Following.
LEADER_CONNECT_TIMEOUT_S = 5.0
"""Longest time to connect to a leader."""
FIRST_PAUSE_S = 0.02
"""Pause before a replica is fetched again after its first failure; it grows."""
KEPT_MS = 500
"""Time of replication rate that may be saved up: about as long as a fetch waits."""
WAIT_MIN_MS = 20
"""Shortest wait for replication quota; less would make many small responses."""


# One directory.
DENIAL_S = 5.0
DENIAL_S_MAX = 60.0
"""How long a disk stays FULL that refused a write although it reported space; doubled each time.
Its reports say nothing then: a quota or the inodes may be used up."""
SHORTAGE_RETRY_S = 1.0
"""Pause before a call is repeated for which the process had no descriptor or no memory."""
SAMPLES_MAX = 256
"""Durations of calls of one kind that are kept between two checks for slowness."""


# Life of the directories. A disk may have to spin up, which takes some seconds.
START_DEADLINE_S = 30.0
"""Longest time to open a directory at the start; then it is offline."""
PROBES = 3
"""Probes in a row that a returning directory must pass."""
LOAD_HANG_DEADLINE_S = 30.0
"""Longest time without progress while logs are loaded; then the directory is offline."""
SETTLED_TIMEOUT_S = 10.0
"""Longest wait of a revival until the controller has processed the failure."""
SILENT_TIMEOUT_S = 5.0
"""Longest wait of a revival for calls that hang in the old directory."""
INSPECTION_TIMEOUT_S = 30.0
"""Longest time to inspect a returning directory."""
REVIVAL_LOOK_INTERVAL_S = 0.05
"""Interval of the checks while a revival waits."""
CLOSE_HANG_DEADLINE_S = 30.0
"""Longest time without progress while a directory is closed; then it is left as it is."""
SYNCS_AT_ONCE = 16
"""Threads that sync the logs of one directory at a stop; more do not help any disk."""


# Upkeep of the directories.
STALL_LOOK_S = 0.1
"""Interval of the timer that detects pauses of the process."""
STALL_MIN_S = 0.01
"""Delay of that timer from which it counts as a pause."""
STALLS_MAX = 256
"""Pauses that are remembered: far more than there are between two checks for slowness."""
EXPIRED_FILES_INTERVAL_MS = 10_000
"""Interval of the search for `.deleted` files whose delay is over."""
RMTREE_ATTEMPTS = 3
"""Attempts to remove a folder into which somebody else writes."""
LOGS_PER_TURN = 256
"""Logs that retention checks in one turn of the event loop."""
CLEANER_STOP_S = 5.0
"""Longest wait for compaction rounds when the broker stops."""
CLEANER_PAUSE_MIN_S = 0.01
"""Shortest pause of the cleaner: a setting of zero must not starve the event loop."""


# Placement.
CREATIONS_PER_CALL = 32
"""Replicas that one call creates, with five files each: appends wait for it."""
REVIEW_INTERVAL_MS = 2_000
"""Interval at which reports to the controller are compared with the metadata."""
FOLDERS_INTERVAL_MS = 5_000
"""Interval of the check whether somebody removed the folder of a replica."""
REMINDER_S = 10.0
FIRST_REMINDER_S = 0.5
"""Pauses of the starting broker between two lines about directories that the controller does not
know yet."""
SHOWN_MAX = 3
"""Replicas that one line of the log names."""
WISHES_MAX = 10_000
"""Requested directories of replicas that do not exist yet; no broker has more replicas."""


# Moves.
ROUND_INTERVAL_S = 0.05
"""Interval at which a copy that caught up is updated while the controller is asked."""
ROOM_INTERVAL_S = 1.0
"""Interval of the check whether a full target has space again."""
ROOM_BYTES = 8 << 20
"""Space that a target must have before a copy begins there again."""
CHANGED_S = 0.02
"""Pause before a log is read again that changed under its copy."""
MOVE_RETRY_S = 0.2
MOVE_RETRY_S_MAX = 5.0
"""Pauses before a failed step of a move is repeated; doubled each time."""
COPY_PIECE_BYTES = 256 << 20
"""Space in the target that a copy reserves at once; a thread copies one piece after the other."""
CLOSE_BYTES = 1 << 20
"""Bytes that a copy may lack to count as caught up: copying them takes about a millisecond."""
HOLD_BYTES = 128 << 10
"""Bytes that a copy should lack at most when appends are held for the swap."""
ROUNDS_BEFORE_HOLD_MAX = 8
"""Rounds after which appends are held although the copy lacks more."""
HOLD_MAX_S = 0.5
"""Longest hold of appends; then the swap is given up and tried again."""
COPY_WRITE_BACK_BYTES = 4 << 20
"""Bytes of the pieces in which a copy is written to the disk."""
THROTTLE_WAIT_MAX_S = 0.25
"""Longest sleep of a throttled copy; then a changed rate counts."""


# The controller.
ASSIGNMENT_TIMEOUT_S = 10.0
"""Longest wait for the answer to a report of directories."""
MAX_ASSIGNMENTS_PER_REQUEST = 2250
"""Replicas in one report of directories, as in Kafka."""
SILENCE_S_MAX = 10.0
"""Longest silence of the metadata stream; an idle controller writes a NoOp every half second."""
UNWRITTEN_BYTES_MAX = 16 << 20
"""Bytes of metadata that wait for the metadata directory; then the stream is not read."""
SNAPSHOT_BYTES_MAX = 1 << 30
"""Bytes of a snapshot that the controller sends."""
REPLAYED_AT_ONCE_BYTES = 1 << 16
"""Bytes of metadata that are replayed before other tasks get a turn."""
FORWARDED_TIMEOUT_S_MAX = 300.0
"""Longest time-out of a client's request to the controller."""
ALLOCATE_TIMEOUT_S = 5.0
"""Longest wait for a block of producer ids."""
CREATIONS_MAX = 100
"""Topics that are created on demand at a time; a client asks again for others."""
CREATION_FAILURES_MAX = 100
"""Topics whose failed creation is remembered."""
CREATE_TIMEOUT_S = 15.0
"""Longest wait for the creation of a topic on demand."""


# Answers.
FETCH_BYTES_MAX = 4 << 20
"""Bytes of records in a fetch response to a client; a larger first batch is sent whole."""
FETCHED_AT_ONCE = 200
"""Partitions of a fetch that are read before other requests are served."""
OFFSETS_AT_ONCE = 200
"""Offsets that are looked up at the same time; each may wait for its disk."""
ENCODED_KINDS_MAX = 4
"""Versions of Metadata whose encoded topics are kept: some hundred KB each."""


# Groups.
EXPIRED_AT_ONCE = 1_000
"""Records of one step of the expiry: one batch."""
SCANNED_AT_ONCE = 2_000
"""Groups and offsets of one step of the expiry; no other request is served meanwhile."""
NEW_MEMBER_TIMEOUT_MS = 300_000
"""Longest time that the join of a new member is parked (KAFKA-7610)."""
CHECKS_AT_ONCE = 10_000
"""Topic names that are compared in one turn of the loop, about 20 ms."""
COMPILED_MAX = 100
"""Expressions that are kept compiled."""
COMPILED_BYTES_MAX = 1 << 20
"""Memory of one compiled expression."""
LOADED_BYTES_AT_ONCE = 1 << 20
"""Bytes of a coordinator's log that are read and reduced at a time."""
LOADED_AT_ONCE = 500
"""Records that become state before other tasks get a turn."""
RELOAD_S_MAX = 30.0
"""Longest pause before a coordinator is loaded anew whose steps fail."""


# The metrics of clients.
TELEMETRY_CLIENTS_MAX = 1_000
"""Clients whose subscriptions and metrics are remembered; the longest silent one is forgotten."""
TELEMETRY_POINTS_MAX = 1_000
"""Points of one client that are shown; further ones of a push are dropped."""
TELEMETRY_SHOWN_MAX = 20_000
"""Points of all clients together that are shown."""
TELEMETRY_TEXT_MAX = 250
"""Characters of a name, or of the attributes, of a metric; a point with more is dropped."""
TELEMETRY_SILENCE_MS_MIN = 60_000
"""A client is forgotten after three intervals without a request, but not before this."""


# The end.
LAST_WORD_S, LAST_WORD_PAUSE_S = 2.0, 0.05
"""Longest time in which a broker that stops sends its last heartbeat to the active controller,
which may just change, and the pause before it sends it again."""
LAST_APPENDS_S = 2.0
"""Longest wait for appends in progress when a broker stops; a follower may not answer."""
