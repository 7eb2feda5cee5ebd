"""Records of batches as columns: whole arrays at a time, no object per record.

Everything here holds itself to the plain decoders of `jbodlab.protocol` and `jbodlab.records`:
what is not as simple as most records are is marked and left to them (`plain_rows`).
"""
