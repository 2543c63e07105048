// Adds the automatic policies that users, things and groups lack, for instance in another policy store (SPEC §5, rule 10).

import type { Database } from '../../database/database.ts'
import { itself, type Writes } from '../writes.ts'
import { type AutomaticKind, automaticKinds, automaticPolicies, countEntities, nextEntities } from './automatic.ts'

export interface RepairOptions {
  /** Counts, and adds nothing. */
  readonly dryRun: boolean
  /** Whether the policies are in the database, so that the missing ones are known; otherwise all are written, and existing ones stay as they are. */
  readonly onlyMissing: boolean
  readonly onProgress: (checked: number, total: number) => void
}

/** The result for one kind. */
export interface Repaired extends Pick<AutomaticKind, 'name' | 'gives'> {
  /** Entities that were checked. */
  readonly checked: number
  /** Policies that were added; for a store outside the database, that were written. */
  readonly policies: number
}

/** Entities in one transaction. */
const batchSize = 1_000

/**
 * Can be interrupted and repeated, and run beside instances: a batch is one transaction with its line of the audit log; existing policies are skipped.
 *
 * @throws HttpError `unavailable` while a policy store outside the database does not answer
 */
export async function repairPolicies(database: Database, writes: Writes, options: RepairOptions): Promise<Repaired[]> {
  const repaired: Repaired[] = []
  const totals = await Promise.all(automaticKinds.map(kind => countEntities(database, kind)))
  const total = totals.reduce((sum, one) => sum + one, 0)
  let checkedBefore = 0
  for (const kind of automaticKinds) {
    let [checked, policies] = [0, 0]
    for (let after: string | undefined; ; ) {
      const entities = await nextEntities(database, kind, { after, limit: batchSize })
      after = entities.at(-1)
      if (after === undefined) break
      policies += await repairBatch(database, writes, kind, entities, options)
      checked += entities.length
      options.onProgress(checkedBefore + checked, total)
    }
    checkedBefore += checked
    repaired.push({ name: kind.name, gives: kind.gives, checked, policies })
  }
  return repaired
}

/** @returns how many policies were added */
async function repairBatch(
  database: Database,
  writes: Writes,
  kind: AutomaticKind,
  entities: readonly string[],
  { dryRun, onlyMissing }: RepairOptions,
): Promise<number> {
  const reading = { onlyMissing, locks: !dryRun }
  if (dryRun) return (await automaticPolicies(database, kind, entities, reading)).length
  return writes(itself, async write => {
    const policies = await automaticPolicies(write, kind, entities, reading)
    if (policies.length === 0) return 0
    await write.policies.add(policies)
    const named = policies.flatMap(({ object, subject }) => [object, subject.replace('#member', '')])
    write.note('policy.repair', [...new Set(named)], [...new Set(policies.map(({ relation }) => relation))])
    return policies.length
  })
}
