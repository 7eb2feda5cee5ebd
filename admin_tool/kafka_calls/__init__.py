"""Requests of the tools to brokers, as typed values; the only package that imports kafka-python."""
