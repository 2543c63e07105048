#!/bin/sh
# The first start of PostgreSQL runs this: a database for the control plane, one for messages, and a role for each that uses them.
set -eu

password_in() { printf %s "$1" | sed 's|^[a-z]*://[^:]*:\([^@]*\)@.*|\1|'; }

# Not as arguments, which a list of processes shows.
CONTROL=$(password_in "$DATABASE_URL") WRITER=$(password_in "$RELATIONAL_URL") READER=$(password_in "$RELATIONAL_READER_URL")
export CONTROL WRITER READER
psql -v ON_ERROR_STOP=1 --quiet --username "$POSTGRES_USER" --dbname postgres <<'SQL'
\getenv control CONTROL
\getenv writer WRITER
\getenv reader READER
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
