"""Compaction: which segments, which records, one round."""
