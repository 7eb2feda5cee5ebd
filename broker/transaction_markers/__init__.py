"""Brings the markers of transactions to the leaders of their partitions."""
