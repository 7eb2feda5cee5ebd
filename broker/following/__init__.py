"""Followers: which lanes they fetch in, how their logs become the leader's, at which rate."""
