-- Up Migration
-- The rows of one publisher are found by an index of their own, and no longer by a list of the days on which the publisher has rows.

CREATE INDEX messages_publisher_time ON public.messages (hashtextextended(publisher, hashtextextended(channel, 0)), time DESC);

DO $body$
DECLARE
  format_table text;
BEGIN
  FOR format_table IN SELECT table_name FROM sluice.formats WHERE to_regclass(format('formats.%I', table_name)) IS NOT NULL LOOP
    EXECUTE format(
      'CREATE INDEX %I ON formats.%I (hashtextextended(publisher, hashtextextended(channel, 0)), created DESC)',
      '$$publisher$' || left(encode(sha256(convert_to(format_table, 'UTF8')), 'hex'), 32),
      format_table
    );
  END LOOP;
END
$body$;

DROP TABLE sluice.publisher_days;

-- Down Migration
-- An older reader finds no publisher's rows until their days are listed again: a writer lists the days of what it writes.
CREATE TABLE sluice.publisher_days (
  channel text NOT NULL,
  publisher text NOT NULL,
  format text NOT NULL,
  day date NOT NULL,
  PRIMARY KEY (channel, publisher, format, day)
);
DO $body$
DECLARE
  index_name text;
BEGIN
  FOR index_name IN SELECT indexname FROM pg_indexes WHERE schemaname = 'formats' AND indexname LIKE '$$publisher$%' LOOP
    EXECUTE format('DROP INDEX formats.%I', index_name);
  END LOOP;
END
$body$;
DROP INDEX public.messages_publisher_time;
