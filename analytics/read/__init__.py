"""From the bytes of a metadata log to columns: its files, where batches begin, records as arrays.

Nothing is an object per record. Everything here holds itself to the plain decoders of
`jbodlab.kafka_wire` and `jbodlab.metadata.records`: what is not as simple as most records are is
marked and left to them (`plain_rows`).

A million records in 200,000 batches take 1.0 s of processor time with their JSON text, of which
finding batches takes 0.05 s, the CRCs 0.06 s and finding records 0.19 s; the plain decoder takes
7 s.
"""
