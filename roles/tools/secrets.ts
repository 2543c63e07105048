// `sluice secrets`: makes new secrets, and puts everything that is kept under the master key under a new one.

import type { Command } from 'commander'
import { writeOutput } from '../../bin/streams.ts'
import { generateSecret, type MasterKeys, replaceSecretFile } from '../../config/secrets.ts'
import { openRelationalPolicies } from '../../control-plane/policies/relational.ts'
import { type RotationState, readRotation, rotateSecrets } from '../../control-plane/secrets/rotation.ts'
import { masterKeyFile } from '../folder-database.ts'
import type { sources as readSources } from '../roles.ts'
import { addDatabaseOptions, type ControlPlaneSite, type DatabaseFlags, withControlPlane, writesOf } from './control-plane.ts'
import { openProgress } from './progress.ts'
import { table } from './text.ts'

interface RotateFlags extends DatabaseFlags {
  readonly dryRun?: boolean
}

/** Adds the commands to `sluice secrets`. */
export function addCommands(secrets: Command, sources: typeof readSources): void {
  secrets.description('Makes secrets, and replaces the master key.')

  secrets
    .command('generate')
    .description('Prints a new secret, for a master key or a service token: 32 random bytes as 43 characters of base64url.')
    .addHelpText('after', '\nExamples:\n  sluice secrets generate > master-key\n  echo "$(sluice secrets generate),$(cat master-key)"\n')
    .action(() => writeOutput(`${generateSecret()}\n`))

  addDatabaseOptions(secrets.command('rotate'))
    .description('Encrypts under the first master key whatever is under another.')
    .option('--dry-run', 'say how many thing keys are under which master key, and change nothing')
    .addHelpText(
      'after',
      `
On a server, while the instances run, in these steps:
  1. make a key (sluice secrets generate), give every instance SVC_MASTER_KEY=old,new, and restart one after the other
  2. give every instance SVC_MASTER_KEY=new,old, and restart one after the other
  3. sluice secrets rotate, with new,old
  4. give every instance SVC_MASTER_KEY=new, and restart one after the other, when the old key is no longer needed: step 3 says when

With --data, in the folder of a \`sluice up\` that is stopped, it makes the new key and takes away the old one. An interrupted run,
or one that left the old key where previous keys of things still need it, is finished by the next one.

Tokens signed under the old key end with it. If you keep older backups of the database, keep the old key with them.

Examples:
  SVC_DATABASE_URL=postgres://sluice:…@db/sluice SVC_MASTER_KEY_FILE=/run/secrets/master-key sluice secrets rotate --dry-run
  sluice secrets rotate --config api.toml
  sluice secrets rotate --data /var/lib/sluice
`,
    )
    .action(async (flags: RotateFlags) => {
      await withControlPlane(flags, sources, async site => {
        if (flags.dryRun === true) await writeOutput(stateWords(await stateOf(site)))
        else if (site.folder === undefined) await rotateOnServer(site)
        else await rotateInFolder(site, masterKeyFile(site.folder), writeOutput)
      })
    })
}

async function stateOf(site: ControlPlaneSite): Promise<RotationState> {
  const masterKeys = await site.masterKeys()
  return site.withDatabase(database => readRotation(database, masterKeys))
}

interface Rotated {
  readonly rewritten: number
  readonly state: RotationState
}

async function rotate(site: ControlPlaneSite, masterKeys: MasterKeys): Promise<Rotated> {
  const progress = openProgress('thing keys encrypted')
  try {
    return await site.withDatabase(async database => {
      const writes = writesOf(database, openRelationalPolicies(database), site)
      const rewritten = await rotateSecrets({ database, writes, masterKeys, onProgress: progress.show })
      return { rewritten, state: await readRotation(database, masterKeys) }
    })
  } finally {
    progress.end()
  }
}

async function rotateOnServer(site: ControlPlaneSite): Promise<void> {
  const masterKeys = await site.masterKeys()
  const rotated = await rotate(site, masterKeys)
  const lines = [rotatedWords(rotated)]
  if (masterKeys.length > 1) {
    const tokensEnd = instant(Date.now() + site.options.tokens.lifetimeSeconds * 1000)
    const { things, until } = rotated.state.previous
    const { externalKeysLeft } = rotated.state
    const ends = [tokensEnd, ...(until === undefined ? [] : [until])]
    lines.push(
      'the old key is still needed',
      `  until ${tokensEnd} at the latest, for tokens signed under it: without it their users sign in again`,
      ...(until === undefined ? [] : [`  until ${until} by ${previousWords(things)}`]),
      ...(externalKeysLeft === 0 ? [] : [`  by ${externalKeyWords(externalKeysLeft)}`]),
      `keep it until ${ends.sort().at(-1)!}${externalKeysLeft === 0 ? '' : ', and until `sluice secrets rotate --dry-run` tells of no external keys'}, and then give every instance the first key alone`,
    )
  }
  await writeOutput(`${lines.join('\n')}\n`)
}

/**
 * The order makes it safe to stop anywhere: the file holds both keys before anything is written under the new one, and loses the old one once
 * nothing on the disk is written under it.
 *
 * @param path of the file of the master keys
 */
export async function rotateInFolder(site: ControlPlaneSite, path: string, tell: (text: string) => Promise<void>): Promise<void> {
  let masterKeys = await site.masterKeys()
  if (masterKeys.length === 1) {
    const made = Buffer.from(generateSecret(), 'base64url')
    masterKeys = [made, ...masterKeys]
    await replaceSecretFile(path, fileText(masterKeys))
    await tell(`${path} holds a new master key before the old one\n`)
  } else {
    await tell(`${path} holds a new master key before the old one already: continuing the interrupted run\n`)
  }
  const rotated = await rotate(site, masterKeys)
  await tell(`${rotatedWords(rotated)}\n`)
  const { previous, externalKeysLeft } = rotated.state
  const { things, until } = previous
  if (externalKeysLeft > 0) {
    await tell(`the old key stays, for ${externalKeyWords(externalKeysLeft)}: run this again then, which takes it away\n`)
    return
  }
  if (until !== undefined) {
    await tell(`the old key stays until ${until}, for ${previousWords(things)}: run this again then to remove it\n`)
    return
  }
  await replaceSecretFile(path, fileText([masterKeys[0]]))
  await tell(`${path} holds the new key alone: users with older tokens sign in again, and older cursors of readers are refused\n`)
}

const fileText = (masterKeys: readonly Buffer[]): string => masterKeys.map(key => key.toString('base64url')).join('\n')

function rotatedWords({ rewritten, state: { masterKeyId } }: Rotated): string {
  return rewritten === 0
    ? `every thing key was under the master key ${masterKeyId} already`
    : `${rewritten} thing ${rewritten === 1 ? 'key was' : 'keys were'} encrypted under the master key ${masterKeyId}, and all are now`
}

const previousWords = (things: number): string =>
  things === 1 ? 'the previous key of a thing in its time of grace' : `previous keys of ${things} things in their time of grace`

/** Their devices have them, and nothing else does. */
const externalKeyWords = (keys: number): string =>
  `${keys === 1 ? 'the external key of a device' : `external keys of ${keys} devices`}, until ${keys === 1 ? 'it has fetched its configuration' : 'each has fetched its configuration'} or its mapping was requested again`

function stateWords(state: RotationState): string {
  const { masterKeyId, counts, isAuthorityLeft, configsLeft, externalKeysLeft, previous } = state
  const { things, until } = previous
  const first = [
    masterKeyId,
    `${counts.find(count => count.masterKeyId === masterKeyId)?.things ?? 0}`,
    'the first, which is written under',
  ]
  const others = counts
    .filter(count => count.masterKeyId !== masterKeyId)
    .map(count => [count.masterKeyId, `${count.things}`, 'to be encrypted'])
  const left = until === undefined ? '' : `beside them, ${previousWords(things)}, until ${until}\n`
  const authority = isAuthorityLeft ? 'beside them, the key of the certificate authority, to be encrypted\n' : ''
  const configs = configsLeft === 0 ? '' : `beside them, secrets of ${configsLeft} bootstrap configurations, to be encrypted\n`
  const external = externalKeysLeft === 0 ? '' : `beside them, ${externalKeyWords(externalKeysLeft)}\n`
  return table([['MASTER KEY', 'THING KEYS', ''], first, ...others]) + authority + configs + left + external
}

/** RFC 3339 in seconds, as the database gives them. */
const instant = (ms: number): string => new Date(ms).toISOString().replace(/\.\d+Z$/, 'Z')
