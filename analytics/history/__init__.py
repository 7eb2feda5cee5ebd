"""Histories of partitions, followed by columns: whole arrays of states, no object per record.

What a record does to a partition is defined by `jbodlab.image.partition_registration`; here the
same is done to many at once. Topics with anything rare in them are left to `analytics.topic_fold`,
which calls that definition record by record.
"""
