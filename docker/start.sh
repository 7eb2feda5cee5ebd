#!/bin/sh
# Formats the node's directories on its very first start, never again, and becomes the server.
# Usage: start.sh controller|broker NAME, with /etc/jbodlab/NAME.properties as the node's settings.
# A node that has a key in /keys is one of a closed cluster.
set -eu
role=$1
file=/run/jbodlab/server.properties
# Who wants metrics shows a token, which the first server makes for all of them.
token=/run/metrics/token
if [ ! -e "$token" ]; then
  (umask 027 && python3 -c 'import secrets; print(secrets.token_urlsafe(24))' >"$token.$2")
  ln "$token.$2" "$token" 2>/dev/null || [ -e "$token" ]
  rm "$token.$2"
fi
(umask 077 && { cat "/etc/jbodlab/$2.properties" && printf 'jbodlab.metrics.token=%s\n' "$(cat "$token")"; } >"$file")
if [ -n "${EXTERNAL_PORT:-}" ]; then
  # The last line of a key wins: clients outside reach this broker at the port that the host maps.
  printf 'advertised.listeners=INTERNAL://%s:9092,EXTERNAL://127.0.0.1:%s\n' "$2" "$EXTERNAL_PORT" >>"$file"
fi
if [ -e "/keys/$2.pem" ]; then
  cat /etc/jbodlab/secure.properties >>"$file"
  printf 'ssl.keystore.location=/keys/%s.pem\n' "$2" >>"$file"
  [ ! -e /keys/decoy ] || printf 'jbodlab.scram.decoy.secret=%s\n' "$(cat /keys/decoy)" >>"$file"
fi
metadata=$(sed -n 's/^metadata.log.dir=//p' "$file")
# The format tool writes the metadata directory last, so its file stands for all of them. A node
# that was formatted once keeps its directories even when one of them is empty or broken today.
if [ ! -e "$metadata/meta.properties" ]; then
  jbod-storage format -g -t "$CLUSTER_ID" -c "$file"
fi
exec "jbod-$role" -c "$file"
