"""Parts of a server process: clock, tasks, threads, sockets, metrics."""
