"""The log of one replica: state on the event loop, files on the threads of its directory."""
