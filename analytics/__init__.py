"""Spark: a metadata log directory -> tables -> reports."""
