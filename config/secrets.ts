// Secret files that only their owner can read, the master keys, the keys derived from them, and encryption with such a key.

import { createCipheriv, createDecipheriv, hkdfSync, type KeyObject, randomBytes, randomInt } from 'node:crypto'
import { constants } from 'node:fs'
import { type FileHandle, link, open, rename, unlink } from 'node:fs/promises'
import { dirname } from 'node:path'

const keyBytes = 32

/** A secret cannot be used. The message says which, why and what to do; it never contains the secret. */
export class SecretError extends Error {
  override readonly name = 'SecretError'
}

/**
 * The master keys of an installation, without duplicates. The first encrypts and signs; data of all of them can be read. So a key can be rotated in
 * steps during which each process reads what the others write, as with the keys of a Kubernetes `EncryptionConfiguration`.
 */
export type MasterKeys = readonly [first: Buffer, ...others: Buffer[]]

/** A new secret: 32 random bytes as 43 characters of base64url. */
export function generateSecret(): string {
  return randomBytes(keyBytes).toString('base64url')
}

/**
 * Reads the master keys from a file, one per line. A missing file is created with one key and mode 0600, and is durable when this resolves.
 * Two processes that create it at the same time get the same key.
 *
 * @throws SecretError for a file that others can read, or that has no key
 */
export async function openMasterKeys(path: string): Promise<MasterKeys> {
  const existing = await readSecretFile(path)
  if (existing !== undefined) return parseMasterKeys(existing, path)
  await createSecretFile(path, generateSecret())
  const created = await readSecretFile(path)
  if (created === undefined)
    throw new SecretError(`${path} disappeared right after it was created: no other program may write to this folder`)
  return parseMasterKeys(created, path)
}

/**
 * Parses master keys: each 43 characters of base64url, separated by commas or line breaks.
 *
 * @param place where they were given (a file, a variable), for the message
 * @throws SecretError
 */
export function parseMasterKeys(text: string, place: string): MasterKeys {
  const keys = splitSecrets(text).map(part => parseMasterKey(part, place))
  if (new Set(keys.map(key => key.toString('hex'))).size < keys.length) {
    throw new SecretError(`${place} contains a master key twice: list each once, the one for new data first`)
  }
  return keys as [Buffer, ...Buffer[]]
}

/** The secrets of a list, separated by commas or line breaks; empty if undefined. */
export function splitSecrets(text: string | undefined): string[] {
  return text === undefined ? [] : text.trim().split(/\s*(?:,|\r?\n)\s*/)
}

function parseMasterKey(text: string, place: string): Buffer {
  const key = Buffer.from(text, 'base64url')
  if (!/^[\w-]{43}$/.test(text) || key.length !== keyBytes) {
    throw new SecretError(
      `${place} does not contain a master key (32 bytes as 43 characters of base64url; several separated by commas or line breaks): restore it from a backup; data encrypted with a lost key cannot be read`,
    )
  }
  return key
}

/**
 * Derives a separate key for each purpose: HKDF-SHA256 (RFC 5869) without salt, with the purpose as info.
 *
 * @param purpose `thing-keys`, `tokens`: part of the stored format, so it must never change
 * @returns 32 bytes
 */
export function deriveKey(masterKey: Uint8Array, purpose: string): Buffer {
  return Buffer.from(hkdfSync('sha256', masterKey, new Uint8Array(0), `sluice ${purpose}`, keyBytes))
}

const algorithm = 'aes-256-gcm'
export const nonceBytes = 12
const headerBytes = nonceBytes + 16

/** AES-256-GCM (NIST SP 800-38D): nonce, tag of 16 bytes, and the encrypted bytes. They can be decrypted in the same context only. */
export function encrypt(key: KeyObject, bytes: Uint8Array, context: string, nonce: Uint8Array = randomBytes(nonceBytes)): Buffer {
  const cipher = createCipheriv(algorithm, key, nonce).setAAD(Buffer.from(context))
  const encrypted = [cipher.update(bytes), cipher.final()]
  return Buffer.concat([nonce, cipher.getAuthTag(), ...encrypted])
}

/** @throws Error if the bytes were changed, or encrypted with another key or in another context */
export function decrypt(key: KeyObject, bytes: Buffer, context: string): Buffer {
  const decipher = createDecipheriv(algorithm, key, bytes.subarray(0, nonceBytes), { authTagLength: headerBytes - nonceBytes })
  decipher.setAAD(Buffer.from(context)).setAuthTag(bytes.subarray(nonceBytes, headerBytes))
  return Buffer.concat([decipher.update(bytes.subarray(headerBytes)), decipher.final()])
}

/** Crockford's base 32, without letters that are easily confused. */
const alphabet = '0123456789abcdefghjkmnpqrstvwxyz'

/** A password of 100 random bits that is easy to read aloud and type: `x7kq2-…`, four groups of five. */
export function generatePassword(): string {
  const group = (): string => Array.from({ length: 5 }, () => alphabet[randomInt(alphabet.length)]).join('')
  return [group(), group(), group(), group()].join('-')
}

/**
 * Creates a file of mode 0600 with `text` and a newline, atomically and durably; the folder must exist.
 *
 * @returns false if the file exists already; it is not changed
 */
export async function createSecretFile(path: string, text: string): Promise<boolean> {
  try {
    // A link, unlike a rename, never replaces a file that another process created in the meantime.
    await placeSecretFile(path, text, draft => link(draft, path))
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  }
}

/**
 * Like `createSecretFile`, but replaces an existing file. Whenever the process or the machine stops, the file holds either the old or the new text.
 *
 * @throws SecretError if it cannot be written
 */
export async function replaceSecretFile(path: string, text: string): Promise<void> {
  try {
    await placeSecretFile(path, text, draft => rename(draft, path))
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    throw new SecretError(`${path} cannot be written (${code}): free some space on its disk, or make its folder writable for this user`, {
      cause,
    })
  }
}

async function placeSecretFile(path: string, text: string, place: (draft: string) => Promise<void>): Promise<void> {
  const draft = `${path}.${randomBytes(6).toString('hex')}.draft`
  try {
    const file = await open(draft, 'wx', 0o600)
    await writeAndClose(file, `${text}\n`)
    await place(draft)
  } finally {
    await unlink(draft).catch(ignoreMissing)
  }
  await syncPath(dirname(path))
}

async function writeAndClose(file: FileHandle, text: string): Promise<void> {
  try {
    await file.writeFile(text)
    await file.sync()
  } finally {
    await file.close()
  }
}

/** Makes a file or a folder durable: a new name is so only when its folder is. */
export async function syncPath(path: string): Promise<void> {
  const file = await open(path, constants.O_RDONLY)
  try {
    await file.sync()
  } finally {
    await file.close()
  }
}

/**
 * The content of a secret file; undefined if it does not exist.
 *
 * @throws SecretError if anyone but its owner can read it
 */
export async function readSecretFile(path: string): Promise<string | undefined> {
  let file: FileHandle
  try {
    file = await open(path, constants.O_RDONLY)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
  try {
    const { mode } = await file.stat()
    // Windows has no such modes, and would always report that others can read it.
    if (process.platform !== 'win32' && (mode & 0o077) !== 0) {
      const octal = (mode & 0o777).toString(8).padStart(4, '0')
      throw new SecretError(
        `${path} has mode ${octal}, so others can read it: run chmod 600 ${path}, and replace the secret if others had access`,
      )
    }
    return await file.readFile('utf8')
  } finally {
    await file.close()
  }
}

function ignoreMissing(error: NodeJS.ErrnoException): void {
  if (error.code !== 'ENOENT') throw error
}
