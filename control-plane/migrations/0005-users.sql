-- Up Migration

ALTER TABLE users
  ADD COLUMN metadata jsonb,
  -- Set while the user may not sign in and their things may not publish or read.
  ADD COLUMN disabled_at timestamptz;

-- Down Migration

ALTER TABLE users DROP COLUMN metadata, DROP COLUMN disabled_at;
