"""The rules of a quorum of controllers, without a clock, a disk or a network; see `core`."""
