-- Up Migration

-- The authority `builtin`, created with the first certificate: one for all instances.
CREATE TABLE certificate_authority (
  id uuid PRIMARY KEY,
  is_only boolean NOT NULL DEFAULT true UNIQUE CHECK (is_only),
  -- PEM.
  certificate text NOT NULL,
  key_ciphertext bytea NOT NULL,
  -- Grows with every revocation: a CRL of the same revision need not be made again.
  revision bigint NOT NULL DEFAULT 0
);

CREATE TABLE certificates (
  -- Lower-case hex.
  serial text PRIMARY KEY,
  ordinal bigint GENERATED ALWAYS AS IDENTITY,
  -- No reference: revoked certificates stay when their thing is deleted, until they expire.
  thing uuid NOT NULL,
  -- Which authority signed it: `builtin`, `step-ca`, `vault`.
  authority text NOT NULL,
  -- PEM. The private key is not stored.
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
