-- Up Migration

-- The owner of its thing, kept when the thing is deleted: to count the entries of one owner in the CRL. Null for certificates
-- of things that were deleted before this column existed.
ALTER TABLE certificates ADD COLUMN owner uuid;
UPDATE certificates SET owner = things.owner FROM things WHERE things.id = certificates.thing;
CREATE INDEX certificates_revoked_of_owner ON certificates (owner, authority, expires_at) WHERE revoked_at IS NOT NULL;

-- Down Migration

DROP INDEX certificates_revoked_of_owner;
ALTER TABLE certificates DROP COLUMN owner;
