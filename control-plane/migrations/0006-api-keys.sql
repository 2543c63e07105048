-- Up Migration

CREATE TABLE api_keys (
  id uuid PRIMARY KEY,
  ordinal bigint GENERATED ALWAYS AS IDENTITY,
  owner uuid NOT NULL REFERENCES users,
  name text NOT NULL,
  -- HMAC-SHA-256 of the value, which is not stored.
  lookup bytea NOT NULL UNIQUE,
  issued_at timestamptz NOT NULL DEFAULT now(),
  expires_at timestamptz
);
CREATE INDEX api_keys_owner ON api_keys (owner, ordinal);

-- Down Migration

DROP TABLE api_keys;
