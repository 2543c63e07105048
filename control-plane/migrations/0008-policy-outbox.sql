-- For policies in an OpenFGA server: its store, and new entities whose policies are not yet delivered to it.

CREATE TABLE openfga_store (
  store_id text NOT NULL,
  model_id text NOT NULL
);

CREATE TABLE policy_outbox (
  entity uuid PRIMARY KEY,
  kind text NOT NULL CHECK (kind IN ('thing', 'group', 'user')),
  policies jsonb NOT NULL,
  -- The entity was deleted again, and policies of it that may have arrived have to be removed.
  is_undone boolean NOT NULL DEFAULT false,
  since timestamptz NOT NULL DEFAULT now()
);
