-- What the questions of this package share. Times in it are microseconds since 1970.
CREATE MACRO or_never(moment) AS coalesce(moment, 9223372036854775807);
-- A reserved directory id begins with 120 zero bits, and no real one does.
CREATE MACRO is_real(directory) AS
  coalesce(NOT starts_with(directory, 'AAAAAAAAAAAAAAAAAAAA'), false);
-- Of a negative number the remainder is one, too.
CREATE MACRO stretch(us) AS us - (us % stretch_us() + stretch_us()) % stretch_us();
CREATE MACRO earlier(one, other) AS
  CASE WHEN one IS NOT NULL AND other IS NOT NULL THEN least(one, other) END;
CREATE MACRO later(one, other) AS
  CASE WHEN one IS NOT NULL AND other IS NOT NULL THEN greatest(one, other) END;
-- The end of what ends with the first of two, each of which may not have ended.
CREATE MACRO first_end(one_offset, one_time, other_offset, other_time) AS
  CASE WHEN one_offset IS NULL THEN other_time WHEN other_offset IS NULL THEN one_time
    ELSE earlier(one_time, other_time) END;
CREATE MACRO unassigned() AS 'AAAAAAAAAAAAAAAAAAAAAQ';
CREATE MACRO lost() AS 'AAAAAAAAAAAAAAAAAAAAAg';
CREATE MACRO migrating() AS 'AAAAAAAAAAAAAAAAAAAAAA';
