// Secrets in the database: encrypted under a key for one purpose, and bound to their row.

import { createSecretKey, type KeyObject } from 'node:crypto'
import { decrypt, deriveKey, encrypt, type MasterKeys } from '../config/secrets.ts'

const keyIdBytes = 4

export interface SealedTexts {
  /** Ids of the master keys that ciphertexts are written under, 4 bytes each, in the order of the keys. */
  readonly masterKeyIds: readonly [Buffer, ...Buffer[]]
  /** Encrypts under the first master key. */
  seal(row: string, text: string): Buffer
  /** @throws Error when the ciphertext belongs to another row, is damaged, or is written under a master key that is not given */
  open(row: string, ciphertext: Uint8Array): string
}

interface DerivedKeys {
  readonly id: Buffer
  readonly encryptionKey: KeyObject
}

/**
 * A ciphertext consists of the id of the encryption key (4 bytes), nonce (12), tag (16), and the encrypted text. The
 * row's id is authenticated with it, so a ciphertext copied to another row cannot be decrypted.
 *
 * @param purpose of the derived keys: `<purpose>` and `<purpose>-id`
 * @param what the secret is, for errors, before the row's id: `key of thing`
 */
export function openSealedTexts(masterKeys: MasterKeys, purpose: string, what: string): SealedTexts {
  // Key objects are prepared once: preparing one from bytes takes several times as long as encrypting a text.
  const all = masterKeys.map(masterKey => ({
    id: deriveKey(masterKey, `${purpose}-id`).subarray(0, keyIdBytes),
    encryptionKey: createSecretKey(deriveKey(masterKey, purpose)),
  })) as [DerivedKeys, ...DerivedKeys[]]
  const [first] = all
  const masterKeyIds = all.map(({ id }) => id) as [Buffer, ...Buffer[]]

  return {
    masterKeyIds,
    seal: (row, text) => Buffer.concat([first.id, encrypt(first.encryptionKey, Buffer.from(text), row)]),
    open(row, ciphertext) {
      const bytes = Buffer.from(ciphertext.buffer, ciphertext.byteOffset, ciphertext.byteLength)
      const writtenUnder = bytes.subarray(0, keyIdBytes)
      const encryptionKey = all.find(({ id }) => id.equals(writtenUnder))?.encryptionKey
      if (encryptionKey === undefined) {
        const ours = masterKeyIds.map(id => id.toString('hex')).join(', ')
        throw new Error(`the ${what} ${row} is encrypted with the key ${writtenUnder.toString('hex')}, but this process has ${ours}`)
      }
      try {
        return decrypt(encryptionKey, bytes.subarray(keyIdBytes), row).toString()
      } catch (error) {
        throw new Error(`the stored ${what} ${row} cannot be decrypted: its row was changed by something other than this platform`, {
          cause: error,
        })
      }
    },
  }
}
