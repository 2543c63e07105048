// Secrets that are kept to be shown again: AES-256-GCM, under a key of one purpose and bound to the row that they stand in.

import { createCipheriv, createDecipheriv, createSecretKey, randomBytes } from 'node:crypto'
import { deriveKey } from '../config/secrets.ts'

const cipher = 'aes-256-gcm'
const keyIdBytes = 4
const nonceBytes = 12
const tagBytes = 16
const headerBytes = keyIdBytes + nonceBytes + tagBytes

export interface Encryption {
  /** @param row its id, which is authenticated with the secret: a ciphertext copied to another row does not open */
  encrypt(row: string, secret: string): Buffer
  /** @throws Error when the ciphertext is not this row's, not whole, or written under another key */
  decrypt(row: string, ciphertext: Uint8Array): string
}

/**
 * A ciphertext is, one after the other: the id of the encryption key (4 bytes), nonce (12), tag (16), encrypted secret.
 *
 * @param purpose of the key: a part of the stored format, never changed
 * @param secret what is encrypted, for messages that end in the row: `key of thing`
 */
export function openEncryption(masterKey: Uint8Array, purpose: string, secret: string): Encryption {
  // As a key object, which is prepared once: from bytes that takes several times as long as a key's encryption.
  const encryptionKey = createSecretKey(deriveKey(masterKey, purpose))
  const keyId = deriveKey(masterKey, `${purpose}-id`).subarray(0, keyIdBytes)

  return {
    encrypt(row, text) {
      const nonce = randomBytes(nonceBytes)
      const encryption = createCipheriv(cipher, encryptionKey, nonce).setAAD(Buffer.from(row))
      const encrypted = Buffer.concat([encryption.update(text, 'utf8'), encryption.final()])
      return Buffer.concat([keyId, nonce, encryption.getAuthTag(), encrypted])
    },
    decrypt(row, ciphertext) {
      const bytes = Buffer.from(ciphertext.buffer, ciphertext.byteOffset, ciphertext.byteLength)
      const writtenUnder = bytes.subarray(0, keyIdBytes)
      if (!writtenUnder.equals(keyId)) {
        throw new Error(
          `the ${secret} ${row} is encrypted under the key ${writtenUnder.toString('hex')}, and this process has ${keyId.toString('hex')}`,
        )
      }
      try {
        const nonce = bytes.subarray(keyIdBytes, keyIdBytes + nonceBytes)
        const decryption = createDecipheriv(cipher, encryptionKey, nonce, { authTagLength: tagBytes }).setAAD(Buffer.from(row))
        decryption.setAuthTag(bytes.subarray(keyIdBytes + nonceBytes, headerBytes))
        return decryption.update(bytes.subarray(headerBytes), undefined, 'utf8') + decryption.final('utf8')
      } catch (error) {
        throw new Error(`the stored ${secret} ${row} does not open: its row was changed by something else than this platform`, {
          cause: error,
        })
      }
    },
  }
}
