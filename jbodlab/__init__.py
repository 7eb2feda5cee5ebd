"""The shared library: Kafka's formats, the metadata records and their one replay.

It imports none of the programs (broker, controller and the tools), which meet only here and on the
wire.
"""
