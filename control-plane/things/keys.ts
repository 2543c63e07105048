// Thing keys: generated here, stored encrypted, and looked up by their HMAC.

import { createHmac, createSecretKey, randomUUID } from 'node:crypto'
import { deriveKey, type MasterKeys } from '../../config/secrets.ts'
import type { ThingId } from '../ids.ts'
import { openSealedTexts } from '../sealed-text.ts'

export interface ThingKey {
  /** A UUID, or a key that a client gave; a secret, never logged. */
  readonly key: string
  readonly ciphertext: Buffer
  readonly lookup: Buffer
}

export interface ThingKeys {
  /** Ids of the master keys that ciphertexts are written under, 4 bytes each, in the order of the keys. */
  readonly masterKeyIds: readonly [Buffer, ...Buffer[]]
  /** A key for a thing in its three forms, under the first master key. @param requestedKey by a client; otherwise a new key is generated */
  issue(thing: ThingId, requestedKey?: string): ThingKey
  /** @throws Error when the ciphertext belongs to another thing, is damaged, or is written under a master key that is not given */
  decrypt(thing: ThingId, ciphertext: Uint8Array): string
  /**
   * The values that a key is looked up by, one for each master key: a row has one of them. Without the master key, a copy of the table does not reveal
   * whether a key is in it.
   */
  lookups(key: string): [Buffer, ...Buffer[]]
}

export function openThingKeys(masterKeys: MasterKeys): ThingKeys {
  const sealed = openSealedTexts(masterKeys, 'thing-keys', 'key of thing')
  const lookupKeys = masterKeys.map(masterKey => createSecretKey(deriveKey(masterKey, 'thing-key-lookup')))
  const lookups = (key: string) =>
    lookupKeys.map(lookupKey => createHmac('sha256', lookupKey).update(key).digest()) as [Buffer, ...Buffer[]]

  return {
    masterKeyIds: sealed.masterKeyIds,
    issue(thing, requestedKey) {
      const key = requestedKey ?? randomUUID()
      return { key, ciphertext: sealed.seal(thing, key), lookup: lookups(key)[0] }
    },
    decrypt: (thing, ciphertext) => sealed.open(thing, ciphertext),
    lookups,
  }
}
