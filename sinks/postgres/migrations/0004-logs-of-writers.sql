-- Up Migration
-- Several writers of one log store into the same tables, each under a number of its own. `content_types` are the media types that the writer takes;
-- null: all of them.
ALTER TABLE sluice.logs ADD COLUMN content_types text[];
ALTER TABLE sluice.logs DROP CONSTRAINT logs_name_id_key;
ALTER TABLE sluice.logs ADD UNIQUE (name, id, writer);

-- Down Migration
-- Fails while two writers have the same log: an older release would mix up their rows. Erase the rows of one of them and its row here first.
ALTER TABLE sluice.logs ADD UNIQUE (name, id);
ALTER TABLE sluice.logs DROP CONSTRAINT logs_name_id_writer_key;
ALTER TABLE sluice.logs DROP COLUMN content_types;
