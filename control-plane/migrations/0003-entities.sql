-- Up Migration

-- A version is the number of changes, and the entity's ETag. A folded name is in lower case, computed by the process, so that it does not depend
-- on the locale of the database (entity.ts).
ALTER TABLE things
  ADD COLUMN version integer NOT NULL DEFAULT 1,
  ADD COLUMN name_folded text,
  -- The key before the last rotation, while it is still valid.
  ADD COLUMN previous_key_lookup bytea CONSTRAINT things_previous_key_lookup_unique UNIQUE,
  ADD COLUMN previous_key_ends_at timestamptz;
DROP INDEX things_owner_name;
CREATE INDEX things_owner_name ON things (owner, name COLLATE "C", ordinal);

ALTER TABLE channels
  ADD COLUMN version integer NOT NULL DEFAULT 1,
  ADD COLUMN name_folded text;
CREATE INDEX channels_owner_name ON channels (owner, name COLLATE "C", ordinal);

-- Existing rows: by default a database of the locale C folds only ASCII letters, hence the collation.
DO $$
DECLARE unicode text := (SELECT ' COLLATE "und-x-icu"' FROM pg_collation WHERE collname = 'und-x-icu' LIMIT 1);
BEGIN
  EXECUTE 'UPDATE things SET name_folded = lower(name' || coalesce(unicode, '') || ')';
  EXECUTE 'UPDATE channels SET name_folded = lower(name' || coalesce(unicode, '') || ')';
END $$;
ALTER TABLE things ALTER COLUMN name_folded SET NOT NULL;
ALTER TABLE channels ALTER COLUMN name_folded SET NOT NULL;

-- Down Migration

DROP INDEX channels_owner_name;
ALTER TABLE channels DROP COLUMN version, DROP COLUMN name_folded;
DROP INDEX things_owner_name;
CREATE INDEX things_owner_name ON things (owner, name, ordinal);
ALTER TABLE things DROP COLUMN version, DROP COLUMN name_folded, DROP COLUMN previous_key_lookup, DROP COLUMN previous_key_ends_at;
