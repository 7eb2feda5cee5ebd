#!/bin/sh
# Replays the controller's log, /metadata/data, into /output, tables and report.txt, as the user who
# owns /output, or as uid 1500 where root owns it.
set -eu
owner=$(stat -c %u /output)
group=$(stat -c %g /output)
if [ "$owner" = 0 ]; then
  chown 1500:1500 /output
  owner=1500 group=1500
fi
# Spark wants a name for its user and a home to write to.
export HOME=/tmp HADOOP_USER_NAME=jbodlab SPARK_USER=jbodlab
getent passwd "$owner" >/dev/null || echo "jbodlab:x:$owner:$group::/tmp:/bin/sh" >>/etc/passwd
exec setpriv --reuid="$owner" --regid="$group" --clear-groups sh -c '
  code=0
  jbodlab replay --input /metadata/data --results /output "$@" >/output/report.txt || code=$?
  cat /output/report.txt
  exit "$code"' sh "$@"
