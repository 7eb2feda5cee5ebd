"""Clusters for other people's tests: `jbodlab.testing` is the name by which they are imported."""
