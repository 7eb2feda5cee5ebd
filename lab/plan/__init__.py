"""Plans of rehearsals as they are written, read and checked; pure."""
