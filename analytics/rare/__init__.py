"""From records to what held when: states of partitions, brokers, settings, with begin and end.

The effect of a record on a partition is defined by `jbodlab.metadata.image.partition_registration`;
`followed_partitions` does the same to many at once. Topics with anything rare in them are left to
`topic_records`, which calls that definition record by record; so does `broker_registration` for
every broker, of which there are few.
"""
