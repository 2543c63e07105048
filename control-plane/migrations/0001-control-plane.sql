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
  metadata jsonb,
  -- Set while the user may not sign in and their things may not publish or read.
  disabled_at timestamptz,
  -- True for users who registered themselves, until an administrator lifts their bounds (users/bounds.ts).
  bounded boolean NOT NULL DEFAULT false,
  -- Rows of `certificates` whose owner this is.
  certificate_count integer NOT NULL DEFAULT 0,
  created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE api_keys (
  id uuid PRIMARY KEY,
  ordinal bigint GENERATED ALWAYS AS IDENTITY,
  owner uuid NOT NULL REFERENCES users,
  name text NOT NULL,
  -- SHA-256 of the value, which is not stored.
  lookup bytea NOT NULL UNIQUE,
  access text NOT NULL DEFAULT 'all' CHECK (access IN ('all', 'read', 'publish')),
  -- The only channels that it is for; null for all of the owner's. Deleted ones stay here.
  channels uuid[],
  issued_at timestamptz NOT NULL DEFAULT now(),
  expires_at timestamptz
);
CREATE INDEX api_keys_owner ON api_keys (owner, ordinal);

-- Failures of the current minute, counted by all instances together: see failed-attempts.ts.
CREATE TABLE failed_attempts (
  -- An HMAC of what was tried and the client's address.
  key text PRIMARY KEY,
  failures integer NOT NULL,
  -- The minute begins with the first failure; afterwards the row is ignored.
  ends_at timestamptz NOT NULL
);
CREATE INDEX failed_attempts_ends_at ON failed_attempts (ends_at);

-- In the tables of things, channels, groups and configurations, `ordinal` is the order of creation, which is the order of lists; `version` is the number
-- of changes, and the entity's ETag; and `name_folded` is the form in which names are compared, computed by the process, so that it does not depend on the
-- locale of the database (entity.ts).

CREATE TABLE things (
  id uuid PRIMARY KEY,
  ordinal bigint GENERATED ALWAYS AS IDENTITY,
  owner uuid NOT NULL REFERENCES users,
  name text NOT NULL,
  name_folded text NOT NULL,
  metadata jsonb,
  -- AES-256-GCM, bound to the id: see things/keys.ts for the layout.
  key_ciphertext bytea NOT NULL,
  -- HMAC-SHA-256 of the key.
  key_lookup bytea NOT NULL CONSTRAINT things_key_lookup_unique UNIQUE,
  -- The key before the last rotation, while it is still valid. Afterwards it may be another thing's.
  previous_key_lookup bytea,
  previous_key_ends_at timestamptz,
  -- Which master key the look-up of the previous key is made under (the id that key_ciphertext begins with): the key itself is not stored, so the look-up
  -- cannot be computed under another one, and that master key is needed until the previous key expires.
  previous_key_id bytea,
  version integer NOT NULL DEFAULT 1,
  created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX things_owner ON things (owner, ordinal);
CREATE INDEX things_owner_name ON things (owner, name COLLATE "C", ordinal);
-- For lists in the order of ids. Without it, a list of an owner of many rows reads the table in that order, with others' rows, until a page is full; if
-- few rows match, to its end.
CREATE INDEX things_owner_id ON things (owner, id);
CREATE INDEX things_previous_key_lookup ON things (previous_key_lookup);

CREATE TABLE channels (
  id uuid PRIMARY KEY,
  ordinal bigint GENERATED ALWAYS AS IDENTITY,
  owner uuid NOT NULL REFERENCES users,
  name text NOT NULL,
  name_folded text NOT NULL,
  metadata jsonb,
  version integer NOT NULL DEFAULT 1,
  created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX channels_owner ON channels (owner, ordinal);
CREATE INDEX channels_owner_name ON channels (owner, name COLLATE "C", ordinal);
CREATE INDEX channels_owner_id ON channels (owner, id);

-- Deleted channels whose messages may still be stored: only their owner can be given their ids again.
CREATE TABLE deleted_channels (
  id uuid PRIMARY KEY,
  owner uuid NOT NULL REFERENCES users
);

CREATE TABLE connections (
  thing uuid NOT NULL REFERENCES things ON DELETE CASCADE,
  channel uuid NOT NULL REFERENCES channels ON DELETE CASCADE,
  created_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (thing, channel)
);
CREATE INDEX connections_channel ON connections (channel, thing);

-- Its members among the users are policies (`member` on the group), wherever they come from; its things are rows.
CREATE TABLE groups (
  id uuid PRIMARY KEY,
  ordinal bigint GENERATED ALWAYS AS IDENTITY,
  owner uuid NOT NULL REFERENCES users,
  name text NOT NULL,
  name_folded text NOT NULL,
  description text,
  metadata jsonb,
  version integer NOT NULL DEFAULT 1,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX groups_owner ON groups (owner, ordinal);

CREATE TABLE group_things (
  group_id uuid NOT NULL REFERENCES groups ON DELETE CASCADE,
  thing uuid NOT NULL REFERENCES things ON DELETE CASCADE,
  PRIMARY KEY (group_id, thing)
);
CREATE INDEX group_things_thing ON group_things (thing);

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

-- For policies in an OpenFGA server: its store, new entities whose policies are not yet delivered to it, and changes of policies of existing entities, to be
-- delivered in the order of their commits.

CREATE TABLE openfga_store (
  store_id text NOT NULL,
  model_id text NOT NULL
);

CREATE TABLE policy_outbox (
  entity uuid PRIMARY KEY,
  policies jsonb NOT NULL,
  -- The entity was deleted again, and policies of it that may have arrived have to be removed.
  is_undone boolean NOT NULL DEFAULT false,
  since timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE policy_changes (
  number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  added jsonb NOT NULL,
  -- Policies, and objects or subjects whose policies are all removed.
  removed jsonb NOT NULL,
  since timestamptz NOT NULL DEFAULT now()
);

-- Who changed what, when and from where. No reference to users or things, because lines stay after these are deleted.
CREATE TABLE audit (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at timestamptz NOT NULL DEFAULT now(),
  actor uuid,
  address text,
  request text,
  action text NOT NULL,
  objects text[] NOT NULL,
  relations text[] NOT NULL
);
CREATE INDEX audit_at ON audit (at);
CREATE INDEX audit_actor ON audit (actor, at);
CREATE INDEX audit_objects ON audit USING gin (objects);
-- For pages of one action: without it, a page of a rare one reads the whole log, from the newest line on.
CREATE INDEX audit_action ON audit (action, at);

-- The authority `builtin`, created with the first certificate: one for all instances.
CREATE TABLE certificate_authority (
  id uuid PRIMARY KEY,
  is_only boolean NOT NULL DEFAULT true UNIQUE CHECK (is_only),
  -- PEM.
  certificate text NOT NULL,
  key_ciphertext bytea NOT NULL
);

CREATE TABLE certificates (
  -- Lower-case hex.
  serial text PRIMARY KEY,
  ordinal bigint GENERATED ALWAYS AS IDENTITY,
  -- No references: revoked certificates stay when their thing is deleted, until a week after they expire. The owner is that of the thing.
  thing uuid NOT NULL,
  owner uuid NOT NULL,
  -- Which authority signed it: `builtin`, `step-ca`, `vault`.
  authority text NOT NULL,
  -- PEM. The private key is not stored.
  certificate text NOT NULL,
  expires_at timestamptz NOT NULL,
  revoked_at timestamptz,
  -- When an authority elsewhere is asked next to revoke it; null if it need not be asked.
  revocation_due_at timestamptz
);
CREATE INDEX certificates_thing ON certificates (thing, ordinal);
CREATE INDEX certificates_owner ON certificates (owner, expires_at);
CREATE INDEX certificates_end ON certificates (authority, expires_at);
CREATE INDEX certificates_revoked ON certificates (authority, expires_at) WHERE revoked_at IS NOT NULL;
CREATE INDEX certificates_revocation_due ON certificates (authority, revocation_due_at) WHERE revocation_due_at IS NOT NULL;

-- One row. It changes with every revocation, and again when an authority elsewhere was asked for some: a CRL of before is not answered any more.
CREATE TABLE crl_revision (
  revision bigint NOT NULL
);
INSERT INTO crl_revision (revision) VALUES (0);

-- What devices fetch before they can do anything else.
CREATE TABLE bootstrap_configs (
  thing uuid PRIMARY KEY REFERENCES things ON DELETE CASCADE,
  ordinal bigint GENERATED ALWAYS AS IDENTITY,
  owner uuid NOT NULL REFERENCES users,
  external_id text NOT NULL,
  -- HMAC-SHA-256 of the external id and the external key, under a key of the master key with this id: without the external key it cannot be
  -- computed under another one.
  key_lookup bytea NOT NULL CONSTRAINT bootstrap_configs_key_unique UNIQUE,
  key_id bytea NOT NULL,
  name text NOT NULL,
  name_folded text NOT NULL,
  client_cert text,
  ca_cert text,
  -- AES-256-GCM, bound to the thing: see sealed-text.ts. The content may contain passwords and the thing's key.
  content bytea,
  -- The same. Erased once the device has it.
  client_key bytea,
  -- The first fetch that returned it.
  client_key_fetched_at timestamptz,
  -- In the order in which they were given. Deleted ones are left out when they are read.
  channels uuid[] NOT NULL,
  -- 1 if the thing is to be connected to them; while it is not enabled it is connected to none of them.
  state smallint NOT NULL CHECK (state IN (0, 1)),
  is_enabled boolean NOT NULL DEFAULT true,
  -- Channels that the thing was disconnected from when its configuration was disabled: enabling connects it again.
  disconnected uuid[] NOT NULL DEFAULT '{}',
  version integer NOT NULL DEFAULT 1,
  fetched_at timestamptz,
  created_at timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT bootstrap_configs_external_id_unique UNIQUE (owner, external_id)
);
CREATE INDEX bootstrap_configs_owner ON bootstrap_configs (owner, ordinal);
CREATE INDEX bootstrap_configs_private_keys ON bootstrap_configs (client_key_fetched_at) WHERE client_key IS NOT NULL;

-- What requests to provision a device created.
CREATE TABLE mappings (
  owner uuid NOT NULL REFERENCES users,
  external_id text NOT NULL,
  key_lookup bytea NOT NULL CONSTRAINT mappings_key_unique UNIQUE,
  key_id bytea NOT NULL,
  -- The thing that the external id belongs to: without it there is no mapping.
  thing uuid NOT NULL REFERENCES things ON DELETE CASCADE,
  -- All of them, in the order of the layout.
  things uuid[] NOT NULL,
  channels uuid[] NOT NULL,
  -- Those of the channels that were there before: deleting the mapping leaves them.
  existing uuid[] NOT NULL DEFAULT '{}',
  is_whitelisted boolean NOT NULL,
  -- The issuer of the certificates, which are in their own table.
  issuing_ca text,
  ca_chain text[],
  created_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (external_id, owner)
);
CREATE INDEX mappings_thing ON mappings (thing);
-- Mappings of an owner that share channels.
CREATE INDEX mappings_sharing ON mappings (owner) WHERE existing <> '{}';
