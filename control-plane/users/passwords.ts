// Password hashes: argon2id (RFC 9106), each stored with its parameters. `passwordWork` bounds how many are computed at once.

import { type Argon2Parameters, argon2, randomBytes, timingSafeEqual } from 'node:crypto'
import type { FairQueueOptions } from '../outside/fair-queue.ts'

export interface PasswordCost {
  readonly memoryKib: number
  readonly passes: number
}

/** OWASP's password storage recommendation for argon2id: 19 MiB, two passes, one lane. About 25 ms of one core. */
const recommendedCost: PasswordCost = { memoryKib: 19_456, passes: 2 }
const parallelism = 1
const saltBytes = 16
const hashBytes = 32

/** Two of libuv's four threads, so that files and name look-ups never wait behind a wave of logins. All 200 take about 2.5 s: longer waits would not help clients. */
export const passwordWork = {
  what: ['passwords', 'checked'],
  concurrentMax: 2,
  jobsMax: 200,
  addressJobsMax: 100,
  accountJobsMax: 20,
} as const satisfies FairQueueOptions

export interface Passwords {
  /** The hash in the PHC string format: `$argon2id$v=19$m=19456,t=2,p=1$<salt>$<hash>`. */
  hash(password: string): Promise<string>
  /** Whether the password matches the hash. Without a hash it takes as long and returns false. */
  matches(password: string, hash: string | undefined): Promise<boolean>
}

type Parameters = Omit<Argon2Parameters, 'message'>
export type Derive = (password: string, parameters: Parameters) => Promise<Buffer>

/**
 * @param derive the derivation; a test counts its calls
 * @param cost of new hashes; tests whose subject is something else use less
 */
export function openPasswords(derive: Derive = argon2id, { memoryKib, passes }: PasswordCost = recommendedCost): Passwords {
  const phc = (salt: Uint8Array, tag: Uint8Array): string =>
    `$argon2id$v=19$m=${memoryKib},t=${passes},p=${parallelism}$${toBase64(salt)}$${toBase64(tag)}`
  /** Costs as much as a real hash; no password is known to match it. */
  const dummyHash = phc(randomBytes(saltBytes), randomBytes(hashBytes))
  return {
    async hash(password) {
      const salt = randomBytes(saltBytes)
      return phc(salt, await derive(password, { nonce: salt, memory: memoryKib, passes, parallelism, tagLength: hashBytes }))
    },
    async matches(password, hash) {
      const { parameters, tag } = parse(hash ?? dummyHash)
      const equal = timingSafeEqual(await derive(password, parameters), tag)
      return equal && hash !== undefined
    },
  }
}

/** The same text may be composed or decomposed, depending on the keyboard; RFC 8265 §4.2 compares passwords in NFC. */
export function argon2id(password: string, parameters: Parameters): Promise<Buffer> {
  const message = Buffer.from(password.normalize('NFC'))
  return new Promise((resolve, reject) => {
    argon2('argon2id', { message, ...parameters }, (error, tag) => (error === null ? resolve(tag) : reject(error)))
  })
}

function parse(hash: string): { parameters: Parameters; tag: Buffer } {
  const match = /^\$argon2id\$v=19\$m=(\d+),t=(\d+),p=(\d+)\$([A-Za-z0-9+/]+)\$([A-Za-z0-9+/]+)$/.exec(hash)
  if (match === null) throw new Error('a stored password hash has an unknown form: the users table was written by another version')
  const [, memory, passes, parallelism, salt, tag] = match as unknown as [string, string, string, string, string, string]
  const bytes = Buffer.from(tag, 'base64')
  const nonce = Buffer.from(salt, 'base64')
  return {
    parameters: { nonce, memory: Number(memory), passes: Number(passes), parallelism: Number(parallelism), tagLength: bytes.length },
    tag: bytes,
  }
}

function toBase64(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('base64').replaceAll('=', '')
}
