// Replaces the master key: everything that is encrypted under another key is encrypted again under the first one.
//
// It can be interrupted anywhere and repeated, beside running instances: each row is completely under one key or the other, and instances with both keys
// can read it. The check of the master key changes last, so that a start with the new key alone is refused until everything is under it.

import { setTimeout as wait } from 'node:timers/promises'
import type { MasterKeys } from '../../config/secrets.ts'
import type { Database } from '../../database/database.ts'
import { openExternalKeys } from '../bootstrap/external-keys.ts'
import { openBootstrapSecrets } from '../bootstrap/store.ts'
import { openAuthorityKeys } from '../certificates/authorities/builtin-store.ts'
import type { ThingId } from '../ids.ts'
import { checkedKey, setCheckedKey } from '../installation.ts'
import { openThingKeys, type ThingKeys } from '../things/keys.ts'
import { itself, type Writes } from '../writes.ts'
import {
  countBootstrapConfigsLeft,
  countByMasterKey,
  isAuthorityLeft,
  isLeft,
  type KeyCount,
  type PreviousKeys,
  previousKeys,
  rewriteAuthority,
  rewriteBatch,
  rewriteBootstrapConfigs,
} from './store.ts'

export interface RotationState {
  /** The id of the first master key, in hexadecimal. */
  readonly masterKeyId: string
  readonly counts: readonly KeyCount[]
  /** Whether the key of the certificate authority is under another. */
  readonly isAuthorityLeft: boolean
  /** Bootstrap configurations with a secret that is under another. */
  readonly bootstrapConfigsLeft: number
  /** Previous keys that need another master key than the first until they expire. */
  readonly previous: PreviousKeys
  /** External keys that need another, until their device fetches its configuration or their mapping is requested again. */
  readonly externalKeysLeft: number
}

interface Parts {
  readonly database: Database
  readonly writes: Writes
  readonly masterKeys: MasterKeys
  readonly onProgress: (rewritten: number, total: number) => void
}

/** How long to wait for transactions that have locked the remaining rows. */
const retryMs = 200

/** @throws ControlPlaneStartError when the database is written under a master key that is not given */
export async function readRotation(database: Database, masterKeys: MasterKeys): Promise<RotationState> {
  await checkedKey(database, masterKeys)
  const thingKeys = openThingKeys(masterKeys)
  return {
    masterKeyId: thingKeys.masterKeyIds[0].toString('hex'),
    counts: await countByMasterKey(database),
    isAuthorityLeft: await isAuthorityLeft(database, openAuthorityKeys(masterKeys)),
    bootstrapConfigsLeft: await countBootstrapConfigsLeft(database, openBootstrapSecrets(masterKeys)),
    previous: await previousKeys(database, thingKeys),
    externalKeysLeft: await countExternalKeysLeft(database, masterKeys),
  }
}

function countExternalKeysLeft(database: Database, masterKeys: MasterKeys): Promise<number> {
  const externalKeys = openExternalKeys(masterKeys, 0)
  return externalKeys.countUnderOtherMasterKeys(database, [externalKeys.masterKeyIds[0]])
}

/**
 * Writes everything under the first master key, and adds a line to the audit log if there was something to do.
 *
 * @returns how many thing keys were written
 * @throws ControlPlaneStartError when the database is written under a master key that is not given
 * @throws SecretError for a thing key, the certificate authority's, or a secret of a bootstrap configuration, that none of the master keys opens
 */
export async function rotateSecrets({ database, writes, masterKeys, onProgress }: Parts): Promise<number> {
  const before = await checkedKey(database, masterKeys)
  const thingKeys = openThingKeys(masterKeys)
  const [first] = thingKeys.masterKeyIds
  const counts = await countByMasterKey(database)
  const total = counts.filter(({ masterKeyId }) => masterKeyId !== first.toString('hex')).reduce((sum, { things }) => sum + things, 0)
  const isAuthorityRewritten = await database.transaction(transaction => rewriteAuthority(transaction, openAuthorityKeys(masterKeys)))
  let rewritten = 0
  while (await isLeft(database, thingKeys)) {
    const written = await rewriteAll(database, thingKeys, done => onProgress(rewritten + done, total))
    rewritten += written
    if (written === 0) await wait(retryMs)
  }
  const areBootstrapConfigsRewritten = await rewriteAllBootstrapConfigs(database, masterKeys)
  if (rewritten > 0 || isAuthorityRewritten || areBootstrapConfigsRewritten || !before.equals(masterKeys[0])) {
    await writes(itself, async write => {
      await setCheckedKey(write, masterKeys[0])
      write.note('secrets.rotate', [first.toString('hex')])
    })
  }
  return rewritten
}

/** @returns whether there were any to write */
async function rewriteAllBootstrapConfigs(database: Database, masterKeys: MasterKeys): Promise<boolean> {
  const sealed = openBootstrapSecrets(masterKeys)
  let isAny = false
  while ((await countBootstrapConfigsLeft(database, sealed)) > 0) {
    const written = await database.transaction(transaction => rewriteBootstrapConfigs(transaction, sealed))
    if (written === 0) await wait(retryMs)
    else isAny = true
  }
  return isAny
}

async function rewriteAll(database: Database, thingKeys: ThingKeys, onProgress: (done: number) => void): Promise<number> {
  let rewritten = 0
  for (let after: ThingId | undefined; ; ) {
    const things = await database.transaction(transaction => rewriteBatch(transaction, thingKeys, after))
    rewritten += things.length
    onProgress(rewritten)
    after = things.at(-1)
    if (after === undefined) return rewritten
  }
}
