-- Up Migration

-- Names stored before are in lower case, not folded (`foldedName` in entity.ts), which SQL cannot do: starts fold them (stored-names.ts). Until this
-- time every start does, because instances of an earlier version may still write; the first start after it is the last one. Null: nothing to fold.
ALTER TABLE installation ADD COLUMN names_to_fold_until timestamptz;
UPDATE installation SET names_to_fold_until = now() + interval '1 day';

-- Down Migration

ALTER TABLE installation DROP COLUMN names_to_fold_until;
