-- One interval in which there was one access control entry.
--
-- order by: cluster, principal, resource_type, resource_name, operation, id, valid_from_offset
--
-- cluster (string): label of the cluster
-- id (string): id of the entry
-- principal (string): whom it is about, such as User:alice; User:* = everybody
-- permission (string): allow or deny
-- operation (string): read, write, ..., all
-- resource_type (string): topic, group, cluster, transactional_id, ...
-- resource_name (string): name of the resource; * = all of the type
-- pattern (string): literal, or prefixed: all names that begin with it
-- host (string): address that the principal connects from; * = everywhere
-- valid_from_offset (long): offset of the record that made this state
-- valid_from_time (timestamp): time of that record
-- record_type (string): type of that record
-- batch_base_offset (long): first offset of its batch
-- valid_to_offset (long): offset of the record that ended this state; null = still
-- valid_to_time (timestamp): time of that record; null = still
WITH entries AS (
  SELECT *, get_json_object(entry, '$.data.principal') AS principal,
    get_json_object(entry, '$.data.permissionType') AS permission_code,
    get_json_object(entry, '$.data.operation') AS operation_code,
    get_json_object(entry, '$.data.resourceType') AS resource_code,
    get_json_object(entry, '$.data.resourceName') AS resource_name,
    get_json_object(entry, '$.data.patternType') AS pattern_code,
    get_json_object(entry, '$.data.host') AS host, lead(valid_from_offset) OVER in_order AS valid_to_offset,
    lead(valid_from_time) OVER in_order AS valid_to_time
  FROM acl_steps WHERE NOT is_unknown
  WINDOW in_order AS (PARTITION BY cluster, id ORDER BY replay_position, `offset`)
)
SELECT cluster, id, principal,
  CASE permission_code WHEN '2' THEN 'deny' WHEN '3' THEN 'allow' ELSE permission_code END AS permission,
  CASE operation_code WHEN '2' THEN 'all' WHEN '3' THEN 'read' WHEN '4' THEN 'write'
    WHEN '5' THEN 'create' WHEN '6' THEN 'delete' WHEN '7' THEN 'alter' WHEN '8' THEN 'describe'
    WHEN '9' THEN 'cluster_action' WHEN '10' THEN 'describe_configs' WHEN '11' THEN 'alter_configs'
    WHEN '12' THEN 'idempotent_write' WHEN '13' THEN 'create_tokens' WHEN '14' THEN 'describe_tokens'
    WHEN '15' THEN 'two_phase_commit' ELSE operation_code END AS operation,
  CASE resource_code WHEN '2' THEN 'topic' WHEN '3' THEN 'group' WHEN '4' THEN 'cluster'
    WHEN '5' THEN 'transactional_id' WHEN '6' THEN 'delegation_token' WHEN '7' THEN 'user'
    ELSE resource_code END AS resource_type,
  resource_name, CASE pattern_code WHEN '3' THEN 'literal' WHEN '4' THEN 'prefixed' ELSE pattern_code END
    AS pattern,
  host, valid_from_offset, valid_from_time, record_type, batch_base_offset, valid_to_offset, valid_to_time
FROM entries WHERE entry IS NOT NULL
