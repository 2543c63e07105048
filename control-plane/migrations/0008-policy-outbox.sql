-- Where an OpenFGA server holds the policies: its store, and what was made here whose policies have not arrived there.

CREATE TABLE openfga_store (
  store_id text NOT NULL,
  model_id text NOT NULL
);

CREATE TABLE policy_outbox (
  entity uuid PRIMARY KEY,
  kind text NOT NULL CHECK (kind IN ('thing', 'group', 'user')),
  policies jsonb NOT NULL,
  -- The entity was deleted again, and what may have arrived of its policies is to be taken back.
  is_undone boolean NOT NULL DEFAULT false,
  since timestamptz NOT NULL DEFAULT now()
);
