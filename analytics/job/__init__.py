"""`jbodlab replay`: the stages of a run, each a Spark job, and the command."""
