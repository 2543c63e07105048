// `./sluice policies repair`: adds the automatic policies that users, things and groups lack.

import type { Command } from 'commander'
import { writeOutput } from '../../bin/streams.ts'
import { openOpenFga } from '../../control-plane/policies/openfga/store.ts'
import { openRelationalPolicies } from '../../control-plane/policies/relational.ts'
import { type Repaired, repairPolicies } from '../../control-plane/policies/repair.ts'
import type { Database } from '../../database/database.ts'
import type { sources as readSources } from '../roles.ts'
import { addDatabaseOptions, type ControlPlaneTarget, type DatabaseFlags, withControlPlane, writesOf } from './control-plane.ts'
import { openProgress } from './progress.ts'
import { table } from './text.ts'

interface RepairFlags extends DatabaseFlags {
  readonly dryRun?: boolean
}

/** Adds the commands to `./sluice policies`. */
export function addCommands(policies: Command, sources: typeof readSources): void {
  policies.description('Repairs the access policies of the control plane.')

  addDatabaseOptions(policies.command('repair'))
    .description('Adds missing automatic policies.')
    .option('--dry-run', 'print what would be added; change nothing')
    .addHelpText(
      'after',
      `
After a change of \`policies.store\` users, things and groups have no policies: their users can neither create things nor see existing ones.
This command adds the policies that they get when they are created:

  users               member of \`users\`
  owner of a thing    read, write and delete on it
  owner of a group    member of it
  members of a group  read, write and delete on the things in it

It cannot restore things that users shared with each other.

It adds those again that an administrator removed.

The command can be interrupted and repeated, and instances can keep running. OpenFGA cannot list missing policies: all policies are written
there, existing ones stay unchanged, and the counts include them.

Examples:
  SVC_DATABASE_URL=postgres://sluice:…@db/sluice SVC_MASTER_KEY_FILE=/run/secrets/master-key ./sluice policies repair --dry-run
  ./sluice policies repair --config api.toml
  ./sluice policies repair --data /var/lib/sluice
`,
    )
    .action(async (flags: RepairFlags) => {
      await writeOutput(await withControlPlane(flags, sources, target => repair(target, flags)))
    })
}

async function repair(target: ControlPlaneTarget, { dryRun = false }: RepairFlags): Promise<string> {
  const onlyMissing = target.options.policies.store === 'relational'
  const progress = openProgress('users, things and groups checked')
  try {
    const repaired = await target.withDatabase(database =>
      withPolicies(database, target, writes => repairPolicies(database, writes, { dryRun, onlyMissing, onProgress: progress.show })),
    )
    return words(repaired, { dryRun, onlyMissing })
  } finally {
    progress.end()
  }
}

async function withPolicies<Result>(
  database: Database,
  target: ControlPlaneTarget,
  work: (writes: ReturnType<typeof writesOf>) => Promise<Result>,
): Promise<Result> {
  const { policies } = target.options
  if (policies.store === 'relational') return work(writesOf(database, openRelationalPolicies(database), target))
  const externalStore = openOpenFga(database, policies.openfga, target.logger)
  try {
    return await work(writesOf(database, externalStore, target))
  } finally {
    await externalStore.close()
  }
}

function words(
  repaired: readonly Repaired[],
  { dryRun, onlyMissing }: { readonly dryRun: boolean; readonly onlyMissing: boolean },
): string {
  const done = onlyMissing ? 'added' : 'written'
  const head = ['', 'CHECKED', dryRun ? `TO BE ${done.toUpperCase()}` : done.toUpperCase(), 'POLICY']
  const rows = repaired.map(({ name, checked, policies, gives }) => [name, `${checked}`, `${policies}`, gives])
  const sum = repaired.reduce((total, { policies }) => total + policies, 0)
  const known = onlyMissing ? '' : ' (this includes policies that OpenFGA already has, which are not changed)'
  const last = dryRun ? `${sum} policies would be ${done}: nothing was changed` : `${sum} policies were ${done}`
  return `${table([head, ...rows])}${last}${known}\n`
}
