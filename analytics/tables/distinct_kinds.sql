-- Step: the kinds that there are.
SELECT DISTINCT bits, has_leader, min_isr, is_unclean, has_elr FROM partition_kinds
