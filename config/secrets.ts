// Secrets: files that only their owner reads, the master key, and the keys derived from it.

import { hkdfSync, randomBytes, randomInt } from 'node:crypto'
import { constants } from 'node:fs'
import { type FileHandle, link, open, unlink } from 'node:fs/promises'
import { dirname } from 'node:path'

const keyBytes = 32

/** A secret that cannot be used: which, why, and what to do. Never holds the secret. */
export class SecretError extends Error {
  override readonly name = 'SecretError'
}

/**
 * The master key in a file: 32 random bytes as base64url. A file that is missing is made, with mode 0600, on the disk when this resolves.
 * Two processes that make it at the same time get the same key.
 *
 * @throws SecretError for a file that others can read, and for one that holds no key
 */
export async function openMasterKey(path: string): Promise<Buffer> {
  const existing = await readSecretFile(path)
  if (existing !== undefined) return parseMasterKey(existing, path)
  await createSecretFile(path, randomBytes(keyBytes).toString('base64url'))
  const created = await readSecretFile(path)
  if (created === undefined) throw new SecretError(`${path} was made and is gone again: nothing else may write in this folder`)
  return parseMasterKey(created, path)
}

/**
 * A master key as text: 43 characters of base64url.
 *
 * @param place where it was given, for the message: a file, a variable
 * @throws SecretError
 */
export function parseMasterKey(text: string, place: string): Buffer {
  const trimmed = text.trim()
  const key = Buffer.from(trimmed, 'base64url')
  if (!/^[\w-]{43}$/.test(trimmed) || key.length !== keyBytes) {
    throw new SecretError(
      `${place} does not hold a master key (32 bytes as 43 characters of base64url): restore it from a backup; without it nothing encrypted under it can be read`,
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
  const draft = `${path}.${randomBytes(6).toString('hex')}.draft`
  try {
    const file = await open(draft, 'wx', 0o600)
    await writeAndClose(file, `${text}\n`)
    // A link, unlike a rename, never replaces a file that another process made in the meantime.
    await link(draft, path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  } finally {
    await unlink(draft).catch(ignoreMissing)
  }
  await syncFolder(dirname(path))
  return true
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
