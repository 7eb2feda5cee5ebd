"""Decisions about configs, features, quotas and producer ids."""
