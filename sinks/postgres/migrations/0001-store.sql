-- Up Migration
-- The store's schema, a public contract: docs/stores/postgres.md describes each column. The migration runner has created the schema "sluice" before.

CREATE SCHEMA IF NOT EXISTS formats;

-- A number for each channel that has rows.
CREATE TABLE sluice.channels (
  id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  channel text NOT NULL UNIQUE,
  -- How many named series it has, which the writer's option store.series_per_channel_max bounds.
  series integer NOT NULL DEFAULT 0
);

-- What rows name instead of repeating it: writing and storing the texts in each row would cost half of the rate and of the disk. A series without a name is
-- the rest of a thing (channel, publisher): its rows have subtopic, protocol, name and unit themselves.
CREATE TABLE sluice.series (
  id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  channel integer NOT NULL REFERENCES sluice.channels (id),
  publisher text NOT NULL,
  subtopic text,
  protocol text,
  name text,
  unit text,
  added_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  -- Maintenance found no row of it: the next one removes it unless a writer has asked for it meanwhile, which sets this to false.
  is_unused boolean NOT NULL DEFAULT false,
  CONSTRAINT series_key UNIQUE NULLS NOT DISTINCT (channel, publisher, name, subtopic, unit, protocol)
);

-- One row. The generation changes whenever maintenance marks series as unused: a writer whose cache is of another one looks its series up again.
CREATE TABLE sluice.dictionary (
  generation uuid NOT NULL DEFAULT gen_random_uuid(),
  -- Transactions below this number may have read an earlier generation, and still write rows of marked series.
  earlier_below xid8
);
INSERT INTO sluice.dictionary DEFAULT VALUES;

-- Eight bytes before four, so that rows have no padding between them.
CREATE TABLE sluice.records (
  time timestamptz NOT NULL,
  position bigint NOT NULL,
  value float8,
  channel integer NOT NULL,
  series integer NOT NULL,
  index integer NOT NULL,
  bool_value boolean,
  string_value text,
  data_value bytea,
  sum float8,
  update_time float8,
  -- Only in rows whose series has no name.
  subtopic text,
  protocol text,
  name text,
  unit text
) PARTITION BY RANGE (time);

-- Ascending: pages stay full where rows come in the order of time.
CREATE INDEX records_channel_time ON sluice.records (channel, time);
CREATE INDEX records_series_time ON sluice.records (series, time);

CREATE TABLE sluice.records_default PARTITION OF sluice.records DEFAULT;
-- So that moving a month out of it reads only the rows of that month, and not those with odd clocks.
CREATE INDEX records_default_time ON sluice.records_default (time);

-- The public contract.
CREATE VIEW public.messages AS
  SELECT m.time, c.channel, coalesce(m.subtopic, s.subtopic) AS subtopic, s.publisher, coalesce(m.protocol, s.protocol) AS protocol,
    coalesce(m.name, s.name) AS name, CASE WHEN m.name IS NULL THEN s.unit ELSE m.unit END AS unit,
    m.value, m.string_value, m.bool_value, m.data_value, m.sum, m.update_time, m.position, m.index
  FROM sluice.records AS m JOIN sluice.series AS s ON s.id = m.series JOIN sluice.channels AS c ON c.id = m.channel;

-- For people, where the view alone would sort all rows of a month. PostgreSQL puts the bodies in place of the calls, so that conditions, orders and limits
-- around them use the indexes too.

-- The rows of one channel: ORDER BY time DESC LIMIT 10 walks the index.
CREATE FUNCTION sluice.of_channel(of_channel text) RETURNS SETOF public.messages
  LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT m.time, c.channel, coalesce(m.subtopic, s.subtopic), s.publisher, coalesce(m.protocol, s.protocol),
      coalesce(m.name, s.name), CASE WHEN m.name IS NULL THEN s.unit ELSE m.unit END,
      m.value, m.string_value, m.bool_value, m.data_value, m.sum, m.update_time, m.position, m.index
    FROM sluice.records AS m JOIN sluice.series AS s ON s.id = m.series JOIN sluice.channels AS c ON c.id = m.channel
    WHERE m.channel = (SELECT known.id FROM sluice.channels AS known WHERE known.channel = of_channel)
  $$;

-- The rows of one thing, through its series.
CREATE FUNCTION sluice.of_publisher(of_channel text, of_thing text) RETURNS SETOF public.messages
  LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT m.time, c.channel, coalesce(m.subtopic, s.subtopic), s.publisher, coalesce(m.protocol, s.protocol),
      coalesce(m.name, s.name), CASE WHEN m.name IS NULL THEN s.unit ELSE m.unit END,
      m.value, m.string_value, m.bool_value, m.data_value, m.sum, m.update_time, m.position, m.index
    FROM sluice.channels AS c JOIN sluice.series AS s ON s.channel = c.id JOIN sluice.records AS m ON m.series = s.id
    WHERE c.channel = of_channel AND s.publisher = of_thing
  $$;

-- At most so many rows of each of its series, the newest ones: a page of the newest rows does not read what is older. NULL for all.
CREATE FUNCTION sluice.of_publisher(of_channel text, of_thing text, rows_each bigint) RETURNS SETOF public.messages
  LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT m.time, c.channel, coalesce(m.subtopic, s.subtopic), s.publisher, coalesce(m.protocol, s.protocol),
      coalesce(m.name, s.name), CASE WHEN m.name IS NULL THEN s.unit ELSE m.unit END,
      m.value, m.string_value, m.bool_value, m.data_value, m.sum, m.update_time, m.position, m.index
    FROM sluice.channels AS c JOIN sluice.series AS s ON s.channel = c.id
      CROSS JOIN LATERAL (
        SELECT * FROM sluice.records AS own WHERE own.series = s.id ORDER BY own.time DESC, own.position DESC, own.index DESC LIMIT rows_each
      ) AS m
    WHERE c.channel = of_channel AND s.publisher = of_thing
  $$;

-- The newest row of each series of a channel. Rows with their own texts are of several series, so all of a thing are read.
CREATE FUNCTION sluice.latest_of(of_channel text) RETURNS SETOF public.messages
  LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT DISTINCT ON (publisher, subtopic, protocol, name, unit)
      m.time, c.channel, coalesce(m.subtopic, s.subtopic) AS subtopic, s.publisher, coalesce(m.protocol, s.protocol) AS protocol,
      coalesce(m.name, s.name) AS name, CASE WHEN m.name IS NULL THEN s.unit ELSE m.unit END AS unit,
      m.value, m.string_value, m.bool_value, m.data_value, m.sum, m.update_time, m.position, m.index
    FROM sluice.channels AS c JOIN sluice.series AS s ON s.channel = c.id
      CROSS JOIN LATERAL (
        (SELECT * FROM sluice.records AS own WHERE s.name IS NOT NULL AND own.series = s.id
          ORDER BY own.time DESC, own.position DESC, own.index DESC LIMIT 1)
        UNION ALL SELECT * FROM sluice.records AS own WHERE s.name IS NULL AND own.series = s.id
      ) AS m
    WHERE c.channel = of_channel
    ORDER BY publisher, subtopic, protocol, name, unit, time DESC, position DESC, index DESC
  $$;

-- One publisher as a condition, for the tables of formats: WHERE sluice.of_publisher(channel, publisher, '<channel>', '<thing>').
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
-- received = stored + empty + filtered + duplicate + dead_lettered; skipped are offsets that held no message. Offsets below copied_below are in no
-- count: their rows were copied from a store that counts none.
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
  copied_below bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (writer, log, partition)
) WITH (fillfactor = 20);

-- Messages that were dead-lettered and then stored by a replay, by their original position: each is stored once.
CREATE TABLE sluice.replayed (
  position bigint PRIMARY KEY,
  replayed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- What was erased, with the conditions and the offsets that it reached, and without contents: by it, verify tells an erased message from a missing one.
CREATE TABLE sluice.erasures (
  id uuid PRIMARY KEY,
  erasure jsonb NOT NULL
);

-- JSON formats, and the tables in the schema "formats" that hold them. A format counts against the limit of the channel that added it.
-- The writer creates these tables, partitioned by month as the records are; the partitions are in this schema and have the format's id in their names.
CREATE TABLE sluice.formats (
  id integer GENERATED ALWAYS AS IDENTITY,
  format text PRIMARY KEY,
  table_name text NOT NULL UNIQUE,
  channel text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
