-- Up Migration
-- The store's schema, a public contract: docs/stores/postgres.md describes each column. The migration runner has created the schema "sluice" before.

CREATE SCHEMA IF NOT EXISTS formats;

CREATE TABLE public.messages (
  time timestamptz NOT NULL,
  channel text NOT NULL,
  subtopic text NOT NULL,
  publisher text NOT NULL,
  protocol text NOT NULL,
  name text NOT NULL,
  unit text,
  value float8,
  string_value text,
  bool_value boolean,
  data_value bytea,
  sum float8,
  update_time float8,
  position bigint NOT NULL,
  index integer NOT NULL
) PARTITION BY RANGE (time);

CREATE INDEX messages_channel_time ON public.messages (channel, time DESC);
CREATE INDEX messages_publisher_time ON public.messages (hashtextextended(publisher, hashtextextended(channel, 0)), time DESC);

CREATE TABLE sluice.messages_default PARTITION OF public.messages DEFAULT;
-- So that moving a month out of it reads only the rows of that month, and not those with odd clocks.
CREATE INDEX messages_default_time ON sluice.messages_default (time);

-- For people: the rows of one publisher, by the index of publishers, which no statement uses without its expression. PostgreSQL puts the bodies in
-- place of the calls, so that conditions, orders and limits around them use the index too.

CREATE FUNCTION sluice.of_publisher(of_channel text, of_thing text) RETURNS SETOF public.messages
  LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT * FROM public.messages
    WHERE hashtextextended(publisher, hashtextextended(channel, 0)) = hashtextextended(of_thing, hashtextextended(of_channel, 0))
      AND channel = of_channel AND publisher = of_thing
  $$;

-- The same as a condition, for the tables of formats: WHERE sluice.of_publisher(channel, publisher, '<channel>', '<thing>').
CREATE FUNCTION sluice.of_publisher(channel text, publisher text, of_channel text, of_thing text) RETURNS boolean
  LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT hashtextextended(publisher, hashtextextended(channel, 0)) = hashtextextended(of_thing, hashtextextended(of_channel, 0))
      AND channel = of_channel AND publisher = of_thing
  $$;

-- The log that a row's position names. Of logs with the same name, the one accepted last is the one that is read now. Several writers of one log store into
-- the same tables, each under a number of its own.
CREATE TABLE sluice.logs (
  number smallint PRIMARY KEY CHECK (number BETWEEN 1 AND 127),
  name text NOT NULL,
  id text NOT NULL,
  writer text NOT NULL,
  -- The media types that the writer takes; null: all of them.
  content_types text[],
  accepted_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  UNIQUE (name, id, writer)
);

-- The next offset of each partition, and what became of its messages:
-- received = stored + empty + filtered + duplicate + dead_lettered; skipped are offsets that held no message.
-- Every batch updates its rows here, so their pages keep room for new versions (heap-only updates).
CREATE TABLE sluice.offsets (
  writer text NOT NULL,
  log smallint NOT NULL REFERENCES sluice.logs (number),
  partition integer NOT NULL CHECK (partition BETWEEN 0 AND 4095),
  next_offset bigint NOT NULL,
  received bigint NOT NULL DEFAULT 0,
  stored bigint NOT NULL DEFAULT 0,
  empty bigint NOT NULL DEFAULT 0,
  filtered bigint NOT NULL DEFAULT 0,
  skipped bigint NOT NULL DEFAULT 0,
  -- How many of the skipped offsets held a message that the log deleted before it was read.
  lost bigint NOT NULL DEFAULT 0,
  duplicate bigint NOT NULL DEFAULT 0,
  dead_lettered bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (writer, log, partition)
) WITH (fillfactor = 20);

-- Messages that were dead-lettered and then stored by a replay, by their original position: each is stored once.
CREATE TABLE sluice.replayed (
  position bigint PRIMARY KEY,
  replayed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- JSON formats, and the tables in the schema "formats" that hold them. A format counts against the limit of the channel that added it.
CREATE TABLE sluice.formats (
  format text PRIMARY KEY,
  table_name text NOT NULL UNIQUE,
  channel text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
