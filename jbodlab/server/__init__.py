"""The server side of Kafka's protocol: sockets, and the way of a request to its answer."""
