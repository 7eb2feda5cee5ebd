"""Record batches: format, checks, compression."""
