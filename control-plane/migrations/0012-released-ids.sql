-- Up Migration

-- Channels that are deleted and whose messages may still be stored: their ids are given to their owner again, and to no other user.
CREATE TABLE deleted_channels (
  id uuid PRIMARY KEY,
  owner uuid NOT NULL REFERENCES users
);

-- A key whose time of grace is over may be another thing's by then.
ALTER TABLE things DROP CONSTRAINT things_previous_key_lookup_unique;
CREATE INDEX things_previous_key_lookup ON things (previous_key_lookup) WHERE previous_key_lookup IS NOT NULL;

-- An instance of the first release that still runs during an upgrade makes rows without it; entity.ts folds their names when it looks.
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
