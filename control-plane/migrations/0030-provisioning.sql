-- Up Migration

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
  is_whitelisted boolean NOT NULL,
  -- As in the answer, without private keys.
  certificates json,
  created_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (external_id, owner)
);
CREATE INDEX mappings_thing ON mappings (thing);


-- Down Migration

DROP TABLE mappings;
DROP TABLE bootstrap_configs;
