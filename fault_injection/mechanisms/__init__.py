"""What faults are made with: file operations, rules for calls, disks, processes."""
