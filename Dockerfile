# Images from one source: `jbodlab` (a whole cluster in one container), `servers` (controller, brokers, storage
# and fault tools), `replay` (Spark), and `observe` (Prometheus with the alerts of this repository).
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
    && install -d -o 1500 -g 1500 /disks /run/jbodlab /run/metrics /var/lib/jbodlab
COPY docker/config /etc/jbodlab
COPY docker/start.sh /usr/local/bin/jbodlab-start
COPY docker/secure.py /usr/local/lib/jbodlab-secure.py
COPY --from=wheel /wheels /wheels
RUN python3 -m pip install -q --no-cache-dir --no-deps /wheels/*.whl
ENV JBODLAB_STATE_DIR=/var/lib/jbodlab PYTHONUNBUFFERED=1
USER jbodlab
WORKDIR /
ENTRYPOINT ["jbodlab-start"]

# What neither the servers nor the tools of the lab read is left out of the whole cluster's image.
FROM servers AS slimmed
USER root
RUN apt-get update -q >/dev/null \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends binutils tini >/dev/null \
    && find /usr/local/lib/python3* -name '*.so' -path '*-packages/*' ! -path '*/preload/*' -exec strip --strip-unneeded {} + \
    && apt-get purge -y -q --auto-remove binutils >/dev/null \
    && rm -rf /wheels /etc/jbodlab /usr/local/bin/jbodlab-start /usr/local/lib/jbodlab-secure.py \
       /run/jbodlab /run/metrics /disks /var/lib/jbodlab /var/lib/apt /var/lib/dpkg/info /var/cache/* /var/log/* \
       /usr/share/doc /usr/share/man /usr/share/info /usr/share/locale /usr/share/python-wheels \
       /usr/lib/*-linux-gnu/gconv /usr/lib/*-linux-gnu/perl-base /usr/share/perl5 /usr/bin/perl* /usr/bin/apt* /usr/lib/apt \
       $(find /usr/lib/python3* /usr/local/lib/python3* -maxdepth 2 -type d \
         \( -name pip -o -name 'pip-*' -o -name 'setuptools*' -o -name pkg_resources -o -name wheel -o -name 'wheel-*' \
         -o -name ensurepip -o -name lib2to3 -o -name distutils -o -name pydoc_data -o -name idlelib -o -name tkinter \
         -o -name test \) -prune -print) \
    && python3 -m compileall -q "$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')" \
    && install -d -o jbodlab -g jbodlab /var/cache/jbodlab
# The library for faults in single calls: /tmp may be mounted so that nothing in it can be executed.
USER jbodlab
RUN XDG_CACHE_HOME=/var/cache python3 -c 'from jbodlab.fault_injection.preload import build; build.library()'

# One layer, so that what was removed takes no room.
FROM scratch AS jbodlab
COPY --from=slimmed / /
# Servers and files of a cluster are below /tmp: it alone has to be writable. Clients on the host reach the brokers
# at the ports 9092, 9093 and so on; JBODLAB_ADVERTISE or --advertise names other ones.
ENV LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 \
    XDG_CACHE_HOME=/var/cache JBODLAB_STATE_DIR=/tmp/jbodlab JBODLAB_ADVERTISE=127.0.0.1:9092
USER jbodlab
WORKDIR /
EXPOSE 8080 9092 9093 9094
# The shell itself asks: it takes no program.
HEALTHCHECK --interval=2s --timeout=2s --start-period=20s --retries=5 CMD ["bash", "-c", \
    "exec 3<>/dev/tcp/127.0.0.1/8080 && printf 'GET /v1/health HTTP/1.0\\r\\n\\r\\n' >&3 && read -r _ code _ <&3 && [ \"$code\" = 200 ]"]
# Processes whose parents have ended are waited for by tini, which hands on signals.
ENTRYPOINT ["tini", "--", "jbodlab", "serve", "--listen", "0.0.0.0:8080"]

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
