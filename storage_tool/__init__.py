"""jbod-storage: formats log directories and tells what is in them; needs no running broker."""
