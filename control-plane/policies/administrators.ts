// The administrators: members of `authorities` (SPEC §5), at least one of whom can always sign in.

import type { Queries } from '../../database/database.ts'
import { HttpError } from '../../http/errors.ts'
import { isId } from '../ids.ts'
import type { PolicyStore, Subject } from './policy-store.ts'

/** Makes concurrent removals of administrators wait for each other, so that together they cannot remove the last one. */
const lockSql = 'SELECT FROM control_plane.installation FOR UPDATE'
const ableSql = 'SELECT FROM control_plane.users WHERE id = ANY($1::uuid[]) AND disabled_at IS NULL LIMIT 1'

/**
 * Call it in the transaction that removes the rights of `without`, or disables them.
 *
 * @throws HttpError `conflict` if no administrator who can sign in would remain
 */
export async function demandOtherAdministrator(
  transaction: Queries,
  policies: Pick<PolicyStore, 'list'>,
  without: readonly Subject[],
): Promise<void> {
  await transaction.query(lockSql)
  const members = (await policies.list({ object: 'authorities', relation: 'member' }, transaction)).map(({ subject }) => subject)
  if (!members.some(subject => without.includes(subject))) return
  const others = members.filter(subject => isId(subject) && !without.includes(subject))
  if ((await transaction.query(ableSql, [others])).length > 0) return
  throw new HttpError('conflict', 'no administrator who can sign in would remain: make another user a member of authorities first')
}
