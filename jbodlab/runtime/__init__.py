"""What a server process needs: clock, tasks, threads, sockets, metrics."""
