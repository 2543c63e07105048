-- Up Migration

-- Certificates that an authority elsewhere is being asked to sign: they count for their thing and owner as issued ones. Each is deleted in the transaction
-- that stores the certificate or notes its failure. After a crash it stays for a day.
CREATE TABLE certificates_in_signing (
  id uuid PRIMARY KEY,
  thing uuid NOT NULL,
  owner uuid NOT NULL,
  authority text NOT NULL,
  expires_at timestamptz NOT NULL
);
CREATE INDEX certificates_in_signing_of_owner ON certificates_in_signing (owner, authority, expires_at);
CREATE INDEX certificates_valid_of_owner ON certificates (owner, authority, expires_at) WHERE revoked_at IS NULL;

-- Changes after each revocation at an authority elsewhere: a copy of its CRL from before that is not answered any more. A sequence, because it changes
-- outside of transactions.
CREATE SEQUENCE crl_revisions;

-- Down Migration

DROP SEQUENCE crl_revisions;
DROP INDEX certificates_valid_of_owner;
DROP TABLE certificates_in_signing;
