-- Up Migration

-- Deleted channels whose messages may still be stored: only their owner can be given their ids again.
CREATE TABLE deleted_channels (
  id uuid PRIMARY KEY,
  owner uuid NOT NULL REFERENCES users
);

-- A key whose grace period is over may belong to another thing by then.
ALTER TABLE things DROP CONSTRAINT things_previous_key_lookup_unique;
CREATE INDEX things_previous_key_lookup ON things (previous_key_lookup);

-- An instance of the first release that is still running during an upgrade inserts rows without it; entity.ts folds their names on look-up.
ALTER TABLE things ALTER COLUMN name_folded DROP NOT NULL;
ALTER TABLE channels ALTER COLUMN name_folded DROP NOT NULL;

-- Down Migration

UPDATE channels SET name_folded = lower(name) WHERE name_folded IS NULL;
UPDATE things SET name_folded = lower(name) WHERE name_folded IS NULL;
ALTER TABLE channels ALTER COLUMN name_folded SET NOT NULL;
ALTER TABLE things ALTER COLUMN name_folded SET NOT NULL;
DROP INDEX things_previous_key_lookup;
ALTER TABLE things ADD CONSTRAINT things_previous_key_lookup_unique UNIQUE (previous_key_lookup);
DROP TABLE deleted_channels;
