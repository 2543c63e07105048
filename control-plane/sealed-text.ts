// Secrets kept in the database: encrypted under a key of one purpose, and bound to their row.

import { createCipheriv, createDecipheriv, createSecretKey, type KeyObject, randomBytes } from 'node:crypto'
import { deriveKey, type MasterKeys } from '../config/secrets.ts'

const cipher = 'aes-256-gcm'
const keyIdBytes = 4
const nonceBytes = 12
const tagBytes = 16
const headerBytes = keyIdBytes + nonceBytes + tagBytes

export interface SealedTexts {
  /** Which master key a ciphertext is written under, 4 bytes for each of ours: the first one's first. */
  readonly masterKeyIds: readonly [Buffer, ...Buffer[]]
  /** Under the first master key. */
  seal(row: string, text: string): Buffer
  /** @throws Error when the ciphertext is not this row's, not whole, or written under a master key that is none of ours */
  open(row: string, ciphertext: Uint8Array): string
}

interface DerivedKeys {
  readonly id: Buffer
  readonly encryptionKey: KeyObject
}

/**
 * A ciphertext is, one after the other: the id of the encryption key (4 bytes), nonce (12), tag (16), encrypted text. The
 * row's id is authenticated with it, so a ciphertext copied to another row does not open.
 *
 * @param purpose of the keys that are derived for it: `<purpose>` and `<purpose>-id`
 * @param what is sealed, for errors, before the row's id: `key of thing`
 */
export function openSealedTexts(masterKeys: MasterKeys, purpose: string, what: string): SealedTexts {
  // As key objects, which are prepared once: from bytes that takes several times as long as a text's encryption.
  const all = masterKeys.map(masterKey => ({
    id: deriveKey(masterKey, `${purpose}-id`).subarray(0, keyIdBytes),
    encryptionKey: createSecretKey(deriveKey(masterKey, purpose)),
  })) as [DerivedKeys, ...DerivedKeys[]]
  const [first] = all
  const masterKeyIds = all.map(({ id }) => id) as [Buffer, ...Buffer[]]

  return {
    masterKeyIds,
    seal(row, text) {
      const nonce = randomBytes(nonceBytes)
      const encryption = createCipheriv(cipher, first.encryptionKey, nonce).setAAD(Buffer.from(row))
      const encrypted = Buffer.concat([encryption.update(text, 'utf8'), encryption.final()])
      return Buffer.concat([first.id, nonce, encryption.getAuthTag(), encrypted])
    },
    open(row, ciphertext) {
      const bytes = Buffer.from(ciphertext.buffer, ciphertext.byteOffset, ciphertext.byteLength)
      const writtenUnder = bytes.subarray(0, keyIdBytes)
      const encryptionKey = all.find(({ id }) => id.equals(writtenUnder))?.encryptionKey
      if (encryptionKey === undefined) {
        const ours = masterKeyIds.map(id => id.toString('hex')).join(', ')
        throw new Error(`the ${what} ${row} is encrypted under the key ${writtenUnder.toString('hex')}, and this process has ${ours}`)
      }
      try {
        const nonce = bytes.subarray(keyIdBytes, keyIdBytes + nonceBytes)
        const decryption = createDecipheriv(cipher, encryptionKey, nonce, { authTagLength: tagBytes }).setAAD(Buffer.from(row))
        decryption.setAuthTag(bytes.subarray(keyIdBytes + nonceBytes, headerBytes))
        return decryption.update(bytes.subarray(headerBytes), undefined, 'utf8') + decryption.final('utf8')
      } catch (error) {
        throw new Error(`the stored ${what} ${row} does not open: its row was changed by something else than this platform`, {
          cause: error,
        })
      }
    },
  }
}
