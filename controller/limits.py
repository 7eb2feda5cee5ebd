"""The bounds of a controller, each with what it costs; those of RPCs are in `controller_api`."""

# The queue of the active controller.
OPERATIONS_PER_ROUND_MAX = 1_000
"""Operations of one round. They wait for one fsync, and for each other."""
ROUNDS_IN_FLIGHT_MAX = 10
"""Rounds that are not committed. Further operations wait in the queue."""
OPERATIONS_IN_FLIGHT_MAX = 2_000
"""Operations of these rounds. A failed election makes all of them uncertain."""
BYTES_IN_FLIGHT_MAX = 8 << 20
"""Size of the records of these rounds."""
ROUND_MS_MAX = 500
"""Time after which a round begins no further operation: half of what a heartbeat may wait."""
QUEUED_OPERATIONS_MAX = 2_000
"""Operations in the queue, without heartbeats. More are refused with REQUEST_TIMED_OUT."""
QUEUED_BYTES_MAX = 128 << 20
"""Memory of the requests in the queue. A single request is never too large."""
FAILURES_MAX, FAILURES_MS = 3, 10_000
"""So many operations that fail unexpectedly in such a time make a controller hand over, once."""
HELD_REQUESTS_MAX = 1_000
"""Requests that wait for the claim of a node that was elected. More are refused at once."""


# Periodic tasks.
SILENT_MS = 1_200
"""Longest time without a call of a living broker: its pause after failed ones, and the way."""

STOOD_STILL_MS = 100
"""Delay of a timer from which the process counts as paused: then no session is ended at once."""
SOON_MS = 10
"""Pause after a run that had more to do than one run may."""
PERIODIC_FAILURE_PAUSE_MS = 60_000
"""Pause after a run that failed."""
ELECTIONS_PER_RUN_MAX = 1_000
"""Changes of one run: it delays all other operations. The next run follows soon."""


# Metadata streams. Each holds two pieces in memory at most.
STREAMS_MAX = 500
"""Streams at the same time. More are refused with RESOURCE_EXHAUSTED."""
STREAM_PIECE_BYTES = 1 << 20
"""Size at which a response is full. A single larger batch is sent whole."""
RECENT_BYTES_MAX = 4 << 20
"""Memory for the end of the log. Brokers that are further behind cost reads of the disk."""
STREAM_KEEP_ALIVE_S = 1.0
"""Silence after which a stream confirms the end of the log: one small message per broker."""


# Registration of a controller that is not active.
REGISTRATION_PAUSE_S = 0.25
"""Pause between two looks whether the metadata has this process as a controller."""
REGISTRATION_TIMEOUT_S = 2.0
"""Longest wait for the active controller's answer."""


# Start, health and end.
HANG_DEADLINE_S = 30.0
"""Longest wait for the thread of the log in a probe; then the process ends."""
STOP_GRACE_S = 1.0
"""Time for responses on their way when the controller stops."""
CLOSE_DEADLINE_S = 5.0
"""Longest wait for the files of the metadata log at a stop."""
HEALTH_TIMEOUT_S = 3.0
"""Longest wait of `--health` for the running controller."""
