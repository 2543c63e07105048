-- Up Migration

-- The authority `builtin`, made with the first certificate: one for all instances.
CREATE TABLE certificate_authority (
  id uuid PRIMARY KEY,
  is_only boolean NOT NULL DEFAULT true UNIQUE CHECK (is_only),
  -- PEM.
  certificate text NOT NULL,
  key_ciphertext bytea NOT NULL,
  -- Grows with every revocation: a CRL of the same revision is as good as a new one.
  revision bigint NOT NULL DEFAULT 0
);

CREATE TABLE certificates (
  -- Lower-case hex.
  serial text PRIMARY KEY,
  ordinal bigint GENERATED ALWAYS AS IDENTITY,
  -- No reference: what is revoked stays, when its thing is deleted, until it has ended.
  thing uuid NOT NULL,
  -- Which authority signed it: `builtin`, `step-ca`, `vault`.
  authority text NOT NULL,
  -- PEM. The private key is kept nowhere.
  certificate text NOT NULL,
  expires_at timestamptz NOT NULL,
  revoked_at timestamptz
);
CREATE INDEX certificates_thing ON certificates (thing, ordinal);
CREATE INDEX certificates_end ON certificates (authority, expires_at);
CREATE INDEX certificates_revoked ON certificates (authority, expires_at) WHERE revoked_at IS NOT NULL;

-- Down Migration

DROP TABLE certificates;
DROP TABLE certificate_authority;
