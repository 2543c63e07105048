// Thing keys: generated here, kept encrypted, and found again by their HMAC.

import { createCipheriv, createDecipheriv, createHmac, createSecretKey, type KeyObject, randomBytes, randomUUID } from 'node:crypto'
import { deriveKey, type MasterKeys } from '../../config/secrets.ts'
import type { ThingId } from '../ids.ts'

const cipher = 'aes-256-gcm'
const keyIdBytes = 4
const nonceBytes = 12
const tagBytes = 16
const headerBytes = keyIdBytes + nonceBytes + tagBytes

export interface ThingKey {
  /** A UUID, or what a client gave; a secret, never logged. */
  readonly key: string
  readonly ciphertext: Buffer
  readonly lookup: Buffer
}

export interface ThingKeys {
  /** Which master key a ciphertext is written under, 4 bytes for each of ours: the first one's first. */
  readonly masterKeyIds: readonly [Buffer, ...Buffer[]]
  /** A key for a thing, in the three forms that are needed of it, under the first master key. @param given by a client; else a new one */
  issue(thing: ThingId, given?: string): ThingKey
  /** @throws Error when the ciphertext is not this thing's, not whole, or written under a master key that is not given */
  decrypt(thing: ThingId, ciphertext: Uint8Array): string
  /**
   * What a key is looked up by, under each master key: a row has one of them. Without the master key, a copy of the table does not reveal
   * whether a key is in it.
   */
  lookups(key: string): [Buffer, ...Buffer[]]
}

interface DerivedKeys {
  readonly id: Buffer
  readonly encryptionKey: KeyObject
  readonly lookupKey: KeyObject
}

/**
 * A ciphertext is, one after the other: the id of the encryption key (4 bytes), nonce (12), tag (16), encrypted key. The
 * thing's id is authenticated with it, so a ciphertext copied to another row does not open.
 */
export function openThingKeys(masterKeys: MasterKeys): ThingKeys {
  // As key objects, which are prepared once: from bytes that takes several times as long as a key's encryption.
  const [first, ...others] = masterKeys.map(masterKey => ({
    id: deriveKey(masterKey, 'thing-keys-id').subarray(0, keyIdBytes),
    encryptionKey: createSecretKey(deriveKey(masterKey, 'thing-keys')),
    lookupKey: createSecretKey(deriveKey(masterKey, 'thing-key-lookup')),
  })) as [DerivedKeys, ...DerivedKeys[]]
  const all = [first, ...others]
  const masterKeyIds = all.map(({ id }) => id) as [Buffer, ...Buffer[]]

  const lookup = (key: string, { lookupKey }: DerivedKeys): Buffer => createHmac('sha256', lookupKey).update(key).digest()

  return {
    masterKeyIds,
    issue(thing, given) {
      const key = given ?? randomUUID()
      const nonce = randomBytes(nonceBytes)
      const encryption = createCipheriv(cipher, first.encryptionKey, nonce).setAAD(Buffer.from(thing))
      const encrypted = Buffer.concat([encryption.update(key, 'utf8'), encryption.final()])
      return { key, ciphertext: Buffer.concat([first.id, nonce, encryption.getAuthTag(), encrypted]), lookup: lookup(key, first) }
    },
    decrypt(thing, ciphertext) {
      const bytes = Buffer.from(ciphertext.buffer, ciphertext.byteOffset, ciphertext.byteLength)
      const writtenUnder = bytes.subarray(0, keyIdBytes)
      const encryptionKey = all.find(({ id }) => id.equals(writtenUnder))?.encryptionKey
      if (encryptionKey === undefined) {
        const ours = masterKeyIds.map(id => id.toString('hex')).join(', ')
        throw new Error(
          `the key of thing ${thing} is encrypted under the key ${writtenUnder.toString('hex')}, and this process has ${ours}`,
        )
      }
      try {
        const nonce = bytes.subarray(keyIdBytes, keyIdBytes + nonceBytes)
        const decryption = createDecipheriv(cipher, encryptionKey, nonce, { authTagLength: tagBytes }).setAAD(Buffer.from(thing))
        decryption.setAuthTag(bytes.subarray(keyIdBytes + nonceBytes, headerBytes))
        return decryption.update(bytes.subarray(headerBytes), undefined, 'utf8') + decryption.final('utf8')
      } catch (error) {
        throw new Error(`the stored key of thing ${thing} does not open: its row was changed by something else than this platform`, {
          cause: error,
        })
      }
    },
    lookups: key => [lookup(key, first), ...others.map(other => lookup(key, other))],
  }
}
