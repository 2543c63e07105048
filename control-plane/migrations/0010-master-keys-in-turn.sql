-- Up Migration

-- Which master key the look-up of a previous key is made under (the id that key_ciphertext begins with): the key itself is not stored, so
-- the look-up cannot be computed under another one, and that master key is needed until the previous key expires.
ALTER TABLE things ADD COLUMN previous_key_id bytea;
UPDATE things SET previous_key_id = substring(key_ciphertext FOR 4) WHERE previous_key_lookup IS NOT NULL;

-- Their look-ups were HMACs under a key of the master key, and are SHA-256 now. No release has issued any; those of a development database could
-- not be found any more.
DELETE FROM api_keys;

-- Down Migration

ALTER TABLE things DROP COLUMN previous_key_id;
