-- Step: a broker; the few records about brokers are followed one by one.
SELECT DISTINCT cluster, broker FROM few_records
WHERE broker IS NOT NULL AND type IN ('REGISTER_BROKER_RECORD', 'BROKER_REGISTRATION_CHANGE_RECORD',
  'FENCE_BROKER_RECORD', 'UNFENCE_BROKER_RECORD', 'UNREGISTER_BROKER_RECORD')
