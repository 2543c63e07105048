// Thing keys: generated here, kept encrypted, and found again by their HMAC.

import { createHmac, createSecretKey, randomUUID } from 'node:crypto'
import { deriveKey } from '../../config/secrets.ts'
import { openEncryption } from '../encryption.ts'
import type { ThingId } from '../ids.ts'

export interface ThingKey {
  /** A UUID, or what a client gave; a secret, never logged. */
  readonly key: string
  readonly ciphertext: Buffer
  readonly lookup: Buffer
}

export interface ThingKeys {
  /** A key for a thing, in the three forms that are needed of it. @param given by a client; else a new one */
  issue(thing: ThingId, given?: string): ThingKey
  /** @throws Error when the ciphertext is not this thing's, not whole, or written under another key */
  decrypt(thing: ThingId, ciphertext: Uint8Array): string
  /** What a key is looked up by: without the master key, a copy of the table tells nobody whether a key is in it. */
  lookup(key: string): Buffer
}

export function openThingKeys(masterKey: Uint8Array): ThingKeys {
  const encryption = openEncryption(masterKey, 'thing-keys', 'key of thing')
  const lookupKey = createSecretKey(deriveKey(masterKey, 'thing-key-lookup'))

  const lookup = (key: string): Buffer => createHmac('sha256', lookupKey).update(key).digest()

  return {
    issue(thing, given) {
      const key = given ?? randomUUID()
      return { key, ciphertext: encryption.encrypt(thing, key), lookup: lookup(key) }
    },
    decrypt: (thing, ciphertext) => encryption.decrypt(thing, ciphertext),
    lookup,
  }
}
