# PostgreSQL with pgvector, and Patroni, which starts it.
FROM postgres:18

RUN apt-get update \
    && apt-get install --yes --no-install-recommends python3 python3-venv postgresql-18-pgvector \
    && python3 -m venv /opt/patroni \
    && /opt/patroni/bin/pip install --no-cache-dir 'patroni[etcd3]==4.1.5' 'psycopg[binary]>=3.2' \
    && rm -rf /var/lib/apt/lists/*

USER postgres
ENTRYPOINT ["/opt/patroni/bin/patroni", "/etc/patroni.yml"]
