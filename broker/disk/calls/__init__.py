"""Calls on the threads of a directory: queues, the fence, and what their errors mean."""
