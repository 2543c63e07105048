-- Up Migration

-- Channels that the thing was disconnected from when its configuration was disabled: enabling connects it again.
ALTER TABLE bootstrap_configs ADD COLUMN disconnected uuid[] NOT NULL DEFAULT '{}';

-- Down Migration

ALTER TABLE bootstrap_configs DROP COLUMN disconnected;
