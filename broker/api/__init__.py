"""Requests of clients: one handler for each API, from typed request to response.

`dispatch` decodes a frame, finds the handler and encodes what it answers. Handlers translate
between Kafka's messages and plain values, such as those of `broker.fetch.fetch_requests` and
`jbodlab.controller_api.requests`.
"""
