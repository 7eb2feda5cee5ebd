"""The metadata of the cluster in this broker: the image that clients are told, settings, roles."""
