"""The active controller: decides what happens in the cluster and keeps the metadata log."""
