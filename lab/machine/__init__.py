"""What the lab does with this machine: processes, ports, disks, folders, waiting; no cluster."""
