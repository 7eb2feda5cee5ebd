"""The lab's use of this machine: processes, ports, disks, folders, waiting; no cluster."""
