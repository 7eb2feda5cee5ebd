"""The parts that a broker is put together from: disks, controller link, replicas, groups, front."""
