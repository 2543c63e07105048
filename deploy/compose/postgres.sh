#!/bin/sh
# The first start of PostgreSQL runs this: a database for the control plane, one for messages, and a role for each that uses them.
set -eu

password_in() { printf %s "$1" | sed 's|^[a-z]*://[^:]*:\([^@]*\)@.*|\1|'; }

psql -v ON_ERROR_STOP=1 --quiet --username "$POSTGRES_USER" --dbname postgres \
  -v control="$(password_in "$DATABASE_URL")" -v writer="$(password_in "$RELATIONAL_URL")" -v reader="$(password_in "$RELATIONAL_READER_URL")" <<'SQL'
CREATE ROLE sluice LOGIN PASSWORD :'control';
CREATE ROLE writer LOGIN PASSWORD :'writer';
CREATE ROLE reader LOGIN PASSWORD :'reader';
CREATE DATABASE sluice OWNER sluice;
CREATE DATABASE messages OWNER writer;
REVOKE ALL ON DATABASE sluice, messages FROM PUBLIC;
GRANT CONNECT ON DATABASE messages TO reader;
\connect messages
-- The writer creates schemas and tables later: the reader may read them.
ALTER DEFAULT PRIVILEGES FOR ROLE writer GRANT USAGE ON SCHEMAS TO reader;
ALTER DEFAULT PRIVILEGES FOR ROLE writer GRANT SELECT ON TABLES TO reader;
SQL
