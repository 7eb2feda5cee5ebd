"""jbod-storage: formats log directories and prints their content; needs no running broker."""
