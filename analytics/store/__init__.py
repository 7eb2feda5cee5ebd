"""Files, wherever they are: on this machine, in HDFS, in S3."""
