// `sluice policies repair`: gives users, things and groups from before the policies those that they would get today.

import { type Command, InvalidArgumentError } from 'commander'
import { writeOutput } from '../../bin/streams.ts'
import type { Database } from '../../config/postgres/database.ts'
import { openOpenFga } from '../../control-plane/policies/openfga/store.ts'
import { openRelationalPolicies } from '../../control-plane/policies/relational.ts'
import { type Repaired, repairPolicies } from '../../control-plane/policies/repair.ts'
import type { sources as readSources } from '../roles.ts'
import { addDatabaseOptions, type ControlPlaneSite, type DatabaseFlags, withControlPlane, writesOf } from './control-plane.ts'
import { openProgress } from './progress.ts'
import { table } from './text.ts'

interface RepairFlags extends DatabaseFlags {
  readonly before?: string
  readonly dryRun?: boolean
}

/** Adds the commands to `sluice policies`. */
export function addCommands(policies: Command, sources: typeof readSources): void {
  policies.description('Works on the policies of the control plane.')

  addDatabaseOptions(policies.command('repair'))
    .description('Adds the automatic policies that are missing.')
    .option('--before <instant>', 'only users, things and groups that were made before (RFC 3339)', parseInstant)
    .option('--dry-run', 'say what would be added, and add nothing')
    .addHelpText(
      'after',
      `
Users, things and groups from a release without policies have none: such users can neither create things nor see their own. This
adds the policies that each would get today: to users member of \`users\`, to the owner of a thing read, write and delete on it, to the owner of a group member
of it, and to the members of a group read, write and delete on the things in it. It cannot restore what users shared by hand.

A policy that an administrator removed looks like one that never existed. Give --before the time at which this release first
started: entities made since then got their policies, so that those they lack were removed on purpose and stay removed.

It can be interrupted and repeated, and instances can keep running. A policy store in OpenFGA cannot list what it lacks: every
policy is written there, existing ones stay unchanged, and the counts are of the policies written.

Examples:
  SVC_DATABASE_URL=postgres://sluice:…@db/sluice SVC_MASTER_KEY_FILE=/run/secrets/master-key sluice policies repair --dry-run
  sluice policies repair --config api.toml --before 2026-11-01T00:00:00Z
  sluice policies repair --data /var/lib/sluice
`,
    )
    .action(async (flags: RepairFlags) => {
      await writeOutput(await withControlPlane(flags, sources, site => repair(site, flags)))
    })
}

async function repair(site: ControlPlaneSite, { before, dryRun = false }: RepairFlags): Promise<string> {
  const onlyMissing = site.options.policies.store === 'relational'
  const progress = openProgress('users, things and groups checked')
  try {
    const repaired = await site.withDatabase(database =>
      withPolicies(database, site, writes => repairPolicies(database, writes, { before, dryRun, onlyMissing, onProgress: progress.show })),
    )
    return words(repaired, { dryRun, onlyMissing })
  } finally {
    progress.end()
  }
}

async function withPolicies<Result>(
  database: Database,
  site: ControlPlaneSite,
  work: (writes: ReturnType<typeof writesOf>) => Promise<Result>,
): Promise<Result> {
  const { policies } = site.options
  if (policies.store === 'relational') return work(writesOf(database, openRelationalPolicies(database), site))
  const elsewhere = openOpenFga(database, policies.openfga, site.logger)
  try {
    return await work(writesOf(database, elsewhere, site))
  } finally {
    await elsewhere.close()
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
  const known = onlyMissing ? '' : '; those that OpenFGA has already are among them, and stay as they are'
  const last = dryRun ? `${sum} policies would be ${done}: nothing was changed` : `${sum} policies were ${done}`
  return `${table([head, ...rows])}${last}${known}\n`
}

/** Without a time zone an instant would be another on each machine. */
const instantForm = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/i

function parseInstant(text: string): string {
  if (!instantForm.test(text) || Number.isNaN(Date.parse(text)))
    throw new InvalidArgumentError('Give an instant with its time zone, such as 2026-11-01T00:00:00Z.')
  return text
}
