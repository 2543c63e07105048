-- Up Migration

-- One row that says under which master key this database is written; without it, this is the first start.
CREATE TABLE installation (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  key_check bytea NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE users (
  id uuid PRIMARY KEY,
  -- Trimmed, NFC, lower case.
  email text NOT NULL CONSTRAINT users_email_unique UNIQUE,
  -- In the PHC string format, so that the parameters are stored with the hash.
  password_hash text NOT NULL,
  -- Carried by every token; a password change raises it and so ends the tokens issued before.
  token_version integer NOT NULL DEFAULT 1,
  created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE things (
  id uuid PRIMARY KEY,
  -- The order of creation, which is the order of lists.
  ordinal bigint GENERATED ALWAYS AS IDENTITY,
  owner uuid NOT NULL REFERENCES users,
  name text NOT NULL,
  metadata jsonb,
  -- AES-256-GCM, bound to the id: see things/keys.ts for the layout.
  key_ciphertext bytea NOT NULL,
  -- HMAC-SHA-256 of the key.
  key_lookup bytea NOT NULL CONSTRAINT things_key_lookup_unique UNIQUE,
  created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX things_owner ON things (owner, ordinal);
CREATE INDEX things_owner_name ON things (owner, name, ordinal);

CREATE TABLE channels (
  id uuid PRIMARY KEY,
  ordinal bigint GENERATED ALWAYS AS IDENTITY,
  owner uuid NOT NULL REFERENCES users,
  name text NOT NULL,
  metadata jsonb,
  created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX channels_owner ON channels (owner, ordinal);

CREATE TABLE connections (
  thing uuid NOT NULL REFERENCES things ON DELETE CASCADE,
  channel uuid NOT NULL REFERENCES channels ON DELETE CASCADE,
  created_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (thing, channel)
);
CREATE INDEX connections_channel ON connections (channel, thing);

-- The policies of the relational policy store: subject has relation on object.
CREATE TABLE tuples (
  -- An entity's id, or `users`, or `authorities`.
  object text NOT NULL,
  relation text NOT NULL CHECK (relation IN ('member', 'read', 'write', 'delete', 'create')),
  -- A user's id, `*`, or `<group id>#member`.
  subject text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (object, relation, subject)
);
CREATE INDEX tuples_subject ON tuples (subject, relation);

-- Down Migration

DROP TABLE tuples;
DROP TABLE connections;
DROP TABLE channels;
DROP TABLE things;
DROP TABLE users;
DROP TABLE installation;
