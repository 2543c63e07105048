// `./sluice secrets`: generates secrets, and re-encrypts everything that is encrypted with the master key with a new one.

import type { Command } from 'commander'
import { writeOutput } from '../../bin/streams.ts'
import { generateSecret, type MasterKeys, replaceSecretFile } from '../../config/secrets.ts'
import { openRelationalPolicies } from '../../control-plane/policies/relational.ts'
import { type RotationState, readRotation, rotateSecrets } from '../../control-plane/secrets/rotation.ts'
import { masterKeyFile } from '../folder-database.ts'
import type { sources as readSources } from '../roles.ts'
import { addDatabaseOptions, type ControlPlaneTarget, type DatabaseFlags, withControlPlane, writesOf } from './control-plane.ts'
import { openProgress } from './progress.ts'
import { table } from './text.ts'

interface RotateFlags extends DatabaseFlags {
  readonly dryRun?: boolean
}

/** Adds the commands to `./sluice secrets`. */
export function addCommands(secrets: Command, sources: typeof readSources): void {
  secrets.description('Generates secrets and rotates the master key.')

  secrets
    .command('generate')
    .description('Prints a new secret, for a master key or a service token: 32 random bytes as 43 characters of base64url.')
    .addHelpText(
      'after',
      '\nExamples:\n  ./sluice secrets generate > master-key\n  echo "$(./sluice secrets generate),$(cat master-key)"\n',
    )
    .action(() => writeOutput(`${generateSecret()}\n`))

  addDatabaseOptions(secrets.command('rotate'))
    .description('Re-encrypts with the first master key all data that is encrypted with other master keys.')
    .option('--dry-run', 'print how many thing keys each master key encrypts; change nothing')
    .addHelpText(
      'after',
      `
To rotate the master key of running \`./sluice api\` instances:
  1. generate a key with ./sluice secrets generate, set SVC_MASTER_KEY=old,new on every instance, and restart them one by one
  2. set SVC_MASTER_KEY=new,old on every instance, and restart them one by one
  3. run ./sluice secrets rotate with SVC_MASTER_KEY=new,old; it prints when the old key is no longer needed
  4. then set SVC_MASTER_KEY=new on every instance, and restart them one by one

With --data, for a stopped \`./sluice up\`, the command does all of this: it generates the new key and removes the old one. If it is
interrupted, or the old key is still needed for previous keys of things, run it again later.

Tokens signed with the old key become invalid when it is removed. If you keep older backups of the database, keep the old key with them.

Examples:
  SVC_DATABASE_URL=postgres://sluice:…@db/sluice SVC_MASTER_KEY_FILE=/run/secrets/master-key ./sluice secrets rotate --dry-run
  ./sluice secrets rotate --config api.toml
  ./sluice secrets rotate --data /var/lib/sluice
`,
    )
    .action(async (flags: RotateFlags) => {
      await withControlPlane(flags, sources, async target => {
        if (flags.dryRun === true) await writeOutput(stateWords(await stateOf(target)))
        else if (target.folder === undefined) await rotateOnServer(target)
        else await rotateInFolder(target, masterKeyFile(target.folder), writeOutput)
      })
    })
}

async function stateOf(target: ControlPlaneTarget): Promise<RotationState> {
  const masterKeys = await target.masterKeys()
  return target.withDatabase(database => readRotation(database, masterKeys))
}

interface Rotated {
  readonly rewritten: number
  readonly state: RotationState
}

async function rotate(target: ControlPlaneTarget, masterKeys: MasterKeys): Promise<Rotated> {
  const progress = openProgress('thing keys re-encrypted')
  try {
    return await target.withDatabase(async database => {
      const writes = writesOf(database, openRelationalPolicies(database), target)
      const rewritten = await rotateSecrets({ database, writes, masterKeys, onProgress: progress.show })
      return { rewritten, state: await readRotation(database, masterKeys) }
    })
  } finally {
    progress.end()
  }
}

async function rotateOnServer(target: ControlPlaneTarget): Promise<void> {
  const masterKeys = await target.masterKeys()
  const rotated = await rotate(target, masterKeys)
  const lines = [rotatedWords(rotated)]
  if (masterKeys.length > 1) {
    const tokensEnd = timestamp(Date.now() + target.options.tokens.lifetimeSeconds * 1000)
    const { things, until } = rotated.state.previous
    const { externalKeysLeft } = rotated.state
    const ends = [tokensEnd, ...(until === undefined ? [] : [until])]
    lines.push(
      'the old key is still needed',
      `  until ${tokensEnd} at the latest, for tokens signed with it: without it their users must sign in again`,
      ...(until === undefined ? [] : [`  until ${until} by ${previousWords(things)}`]),
      ...(externalKeysLeft === 0 ? [] : [`  by ${externalKeyWords(externalKeysLeft)}`]),
      `keep it until ${ends.sort().at(-1)!}${externalKeysLeft === 0 ? '' : ', and until `./sluice secrets rotate --dry-run` lists no external keys'}, then give every instance only the first key`,
    )
  }
  await writeOutput(`${lines.join('\n')}\n`)
}

/**
 * Safe to interrupt at any point: the file contains both keys before anything is encrypted with the new one, and loses the old one only when
 * nothing on disk is encrypted with it.
 *
 * @param path of the file of the master keys
 */
export async function rotateInFolder(target: ControlPlaneTarget, path: string, tell: (text: string) => Promise<void>): Promise<void> {
  let masterKeys = await target.masterKeys()
  if (masterKeys.length === 1) {
    const made = Buffer.from(generateSecret(), 'base64url')
    masterKeys = [made, ...masterKeys]
    await replaceSecretFile(path, fileText(masterKeys))
    await tell(`${path} now contains a new master key before the old one\n`)
  } else {
    await tell(`${path} already contains a new master key before the old one: resuming the interrupted run\n`)
  }
  const rotated = await rotate(target, masterKeys)
  await tell(`${rotatedWords(rotated)}\n`)
  const { previous, externalKeysLeft } = rotated.state
  const { things, until } = previous
  if (externalKeysLeft > 0) {
    await tell(`the old key is kept for ${externalKeyWords(externalKeysLeft)}: run this command again afterwards to remove it\n`)
    return
  }
  if (until !== undefined) {
    await tell(`the old key is kept until ${until} for ${previousWords(things)}: run this command again afterwards to remove it\n`)
    return
  }
  await replaceSecretFile(path, fileText([masterKeys[0]]))
  await tell(`${path} contains only the new key: users with older tokens must sign in again, and readers reject older cursors\n`)
}

const fileText = (masterKeys: readonly Buffer[]): string => masterKeys.map(key => key.toString('base64url')).join('\n')

function rotatedWords({ rewritten, state: { masterKeyId } }: Rotated): string {
  return rewritten === 0
    ? `every thing key was already encrypted with the master key ${masterKeyId}`
    : `${rewritten} thing ${rewritten === 1 ? 'key was' : 'keys were'} re-encrypted with the master key ${masterKeyId}, and now all are`
}

const previousWords = (things: number): string =>
  things === 1 ? 'the previous key of a thing in its grace period' : `previous keys of ${things} things in their grace period`

/** Only the devices know these keys. */
const externalKeyWords = (keys: number): string =>
  `${keys === 1 ? 'the external key of a device' : `external keys of ${keys} devices`}, until ${keys === 1 ? 'it has fetched its configuration' : 'each has fetched its configuration'} or its mapping was requested again`

function stateWords(state: RotationState): string {
  const { masterKeyId, counts, isAuthorityLeft, bootstrapConfigsLeft, externalKeysLeft, previous } = state
  const { things, until } = previous
  const first = [masterKeyId, `${counts.find(count => count.masterKeyId === masterKeyId)?.things ?? 0}`, 'the first, used for new data']
  const others = counts
    .filter(count => count.masterKeyId !== masterKeyId)
    .map(count => [count.masterKeyId, `${count.things}`, 'to be re-encrypted'])
  const left = until === undefined ? '' : `in addition, ${previousWords(things)}, until ${until}\n`
  const authority = isAuthorityLeft ? 'in addition, the key of the certificate authority, to be re-encrypted\n' : ''
  const bootstrapConfigs =
    bootstrapConfigsLeft === 0 ? '' : `in addition, secrets of ${bootstrapConfigsLeft} bootstrap configurations, to be re-encrypted\n`
  const external = externalKeysLeft === 0 ? '' : `in addition, ${externalKeyWords(externalKeysLeft)}\n`
  return table([['MASTER KEY', 'THING KEYS', ''], first, ...others]) + authority + bootstrapConfigs + left + external
}

/** RFC 3339 without fractions of a second, like the database's times. */
const timestamp = (ms: number): string => new Date(ms).toISOString().replace(/\.\d+Z$/, 'Z')
