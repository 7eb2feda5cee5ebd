"""Layouts of requests that kafka-python does not have, in the form in which it reads its own."""
