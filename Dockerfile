# Images from one source: `servers` (controller, brokers, storage and fault tools), `replay` (Spark), and
# `observe` (Prometheus with the alerts of this repository).
# What changes least comes first: after a change of the sources only the product is installed again.

FROM python:3.11-slim-bookworm AS requirements
WORKDIR /source
COPY pyproject.toml docker/requirements.py ./
RUN python3 requirements.py fast pkcs12 >/servers.txt && python3 requirements.py analytics >/replay.txt

FROM python:3.11-slim-bookworm AS wheel
WORKDIR /source
COPY constraints.txt .
RUN python3 -m pip install -q --no-cache-dir -c constraints.txt hatchling
COPY . .
RUN python3 -m pip wheel -q --no-deps --no-build-isolation --wheel-dir /wheels .

FROM python:3.11-slim-bookworm AS servers
COPY constraints.txt /tmp/
COPY --from=requirements /servers.txt /tmp/
RUN python3 -m pip install -q --no-cache-dir -c /tmp/constraints.txt -r /tmp/servers.txt
# Permission faults have no effect on root, so the servers run as an ordinary user.
RUN groupadd --gid 1500 jbodlab && useradd --uid 1500 --gid 1500 --no-create-home --shell /bin/sh jbodlab \
    && install -d -o 1500 -g 1500 /disks /run/jbodlab /var/lib/jbodlab
COPY docker/config /etc/jbodlab
COPY docker/start.sh /usr/local/bin/jbodlab-start
COPY docker/secure.py /usr/local/lib/jbodlab-secure.py
COPY --from=wheel /wheels /wheels
RUN python3 -m pip install -q --no-cache-dir --no-deps /wheels/*.whl
ENV JBODLAB_STATE_DIR=/var/lib/jbodlab PYTHONUNBUFFERED=1
USER jbodlab
WORKDIR /
ENTRYPOINT ["jbodlab-start"]

FROM python:3.11-slim-bookworm AS replay
RUN apt-get update -q >/dev/null \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends \
       openjdk-17-jre-headless procps util-linux >/dev/null \
    && rm -rf /var/lib/apt/lists/*
COPY constraints.txt /tmp/
COPY --from=requirements /replay.txt /tmp/
RUN python3 -m pip install -q --no-cache-dir -c /tmp/constraints.txt -r /tmp/replay.txt
COPY docker/replay.sh /usr/local/bin/jbodlab-replay
COPY --from=wheel /wheels /wheels
RUN python3 -m pip install -q --no-cache-dir --no-deps /wheels/*.whl
WORKDIR /
ENTRYPOINT ["jbodlab-replay"]

FROM python:3.11-slim-bookworm AS observe
RUN apt-get update -q >/dev/null \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends prometheus >/dev/null \
    && rm -rf /var/lib/apt/lists/* \
    && install -d -o prometheus -g prometheus /prometheus
COPY docker/config/prometheus.yml config/alerts.yml /etc/prometheus/
# The servers make the token that the configuration names.
RUN promtool check config --syntax-only /etc/prometheus/prometheus.yml && promtool check rules /etc/prometheus/alerts.yml
USER prometheus
WORKDIR /prometheus
ENTRYPOINT ["prometheus", "--config.file=/etc/prometheus/prometheus.yml", "--storage.tsdb.path=/prometheus", "--web.listen-address=0.0.0.0:9090"]
