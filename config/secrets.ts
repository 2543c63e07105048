// Secrets: files that only their owner reads, the master keys, and the keys derived from them.

import { hkdfSync, randomBytes, randomInt } from 'node:crypto'
import { constants } from 'node:fs'
import { type FileHandle, link, open, rename, unlink } from 'node:fs/promises'
import { dirname } from 'node:path'

const keyBytes = 32

/** A secret that cannot be used: which, why, and what to do. Never holds the secret. */
export class SecretError extends Error {
  override readonly name = 'SecretError'
}

/**
 * The master keys of an installation, none twice: the first encrypts and signs, and what any of them wrote is read. So a key is replaced in steps in which each
 * process reads what the others write, as Kubernetes does it with the keys of an `EncryptionConfiguration`.
 */
export type MasterKeys = readonly [first: Buffer, ...others: Buffer[]]

/** A new secret: 32 random bytes as 43 characters of base64url. */
export function generateSecret(): string {
  return randomBytes(keyBytes).toString('base64url')
}

/**
 * The master keys in a file, one on each line. A file that is missing is made with one key, with mode 0600, on the disk when this resolves.
 * Two processes that make it at the same time get the same key.
 *
 * @throws SecretError for a file that others can read, and for one that holds no key
 */
export async function openMasterKeys(path: string): Promise<MasterKeys> {
  const existing = await readSecretFile(path)
  if (existing !== undefined) return parseMasterKeys(existing, path)
  await createSecretFile(path, generateSecret())
  const created = await readSecretFile(path)
  if (created === undefined) throw new SecretError(`${path} was made and is gone again: nothing else may write in this folder`)
  return parseMasterKeys(created, path)
}

/**
 * Master keys as text: each 43 characters of base64url, divided by commas or line ends.
 *
 * @param place where they were given, for the message: a file, a variable
 * @throws SecretError
 */
export function parseMasterKeys(text: string, place: string): MasterKeys {
  const keys = splitSecrets(text).map(part => parseMasterKey(part, place))
  if (new Set(keys.map(key => key.toString('hex'))).size < keys.length) {
    throw new SecretError(`${place} holds one master key twice: give each once, the one to write under first`)
  }
  return keys as [Buffer, ...Buffer[]]
}

/** The secrets of a list, divided by commas or line ends; none of what is not given. */
export function splitSecrets(text: string | undefined): string[] {
  return text === undefined ? [] : text.trim().split(/\s*(?:,|\r?\n)\s*/)
}

function parseMasterKey(text: string, place: string): Buffer {
  const key = Buffer.from(text, 'base64url')
  if (!/^[\w-]{43}$/.test(text) || key.length !== keyBytes) {
    throw new SecretError(
      `${place} does not hold a master key (32 bytes as 43 characters of base64url; several divided by commas or line ends): restore it from a backup; without it nothing encrypted under it can be read`,
    )
  }
  return key
}

/**
 * One key for each purpose, so that none can be used for another: HKDF-SHA256 (RFC 5869) without salt, the purpose as its info.
 *
 * @param purpose `thing-keys`, `tokens`: part of the stored format, never changed
 * @returns 32 bytes
 */
export function deriveKey(masterKey: Uint8Array, purpose: string): Buffer {
  return Buffer.from(hkdfSync('sha256', masterKey, new Uint8Array(0), `sluice ${purpose}`, keyBytes))
}

/** Crockford's base 32: no letter that is read as another. */
const alphabet = '0123456789abcdefghjkmnpqrstvwxyz'

/** A password of 100 random bits that can be read aloud and typed: `x7kq2-…`, four groups of five. */
export function generatePassword(): string {
  const group = (): string => Array.from({ length: 5 }, () => alphabet[randomInt(alphabet.length)]).join('')
  return [group(), group(), group(), group()].join('-')
}

/**
 * Writes a file of mode 0600 that holds `text` and a line's end, at once and durably; the folder must exist.
 *
 * @returns false when there is one already, which stays as it is
 */
export async function createSecretFile(path: string, text: string): Promise<boolean> {
  try {
    // A link, unlike a rename, never replaces a file that another process made in the meantime.
    await placeSecretFile(path, text, draft => link(draft, path))
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  }
}

/**
 * As `createSecretFile`, in place of the one that is there: whenever the process or the machine stops, the file holds the old text or the new one.
 *
 * @throws SecretError where it cannot be written
 */
export async function replaceSecretFile(path: string, text: string): Promise<void> {
  try {
    await placeSecretFile(path, text, draft => rename(draft, path))
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    throw new SecretError(`${path} cannot be written (${code}): make room on its disk, or make its folder writable for this user`, {
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
  await syncFolder(dirname(path))
}

async function writeAndClose(file: FileHandle, text: string): Promise<void> {
  try {
    await file.writeFile(text)
    await file.sync()
  } finally {
    await file.close()
  }
}

/** A new name is durable only when its folder is. */
export async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, constants.O_RDONLY)
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}

/**
 * The content of a secret file; undefined when there is none.
 *
 * @throws SecretError when others than its owner can read it
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
    // Windows knows no such modes, and its answer would always be "others can read".
    if (process.platform !== 'win32' && (mode & 0o077) !== 0) {
      const octal = (mode & 0o777).toString(8).padStart(4, '0')
      throw new SecretError(
        `${path} has mode ${octal}, so that others can read it: run chmod 600 ${path}, and replace the secret if others had access`,
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
