// The option `env`: in production, secrets that are publicly known or commonly guessed are rejected.

import { Type } from 'typebox'
import type { OptionFault } from './options/faults.ts'

export const environmentOption = Type.Enum(['development', 'production'], {
  default: 'development',
  description: 'With `production` the start refuses publicly known secrets.',
})

/** Secrets from our own documentation and samples, defaults of common images and tools, and common placeholders. */
const knownSecrets = new Set([
  'admin',
  'change-me',
  'changeme',
  'correct horse battery',
  'default',
  'example',
  'password',
  'postgres',
  'root',
  'secret',
  'sluice',
  'test',
  'token',
])

/** True for a known secret, also repeated or with digits and marks appended (`changeme-changeme`, `admin123`), and for a single repeated character. */
export function isKnownSecret(secret: string): boolean {
  const plain = secret.trim().toLowerCase()
  if (/^(.?)\1*$/.test(plain) || '0123456789'.repeat(100).includes(plain)) return true
  const stem = plain.replace(/[\d!?.,_-]+$/, '')
  if (knownSecrets.has(plain) || knownSecrets.has(stem)) return true
  return plain
    .split(/[-_. ]+/)
    .map(word => word.replace(/\d+$/, ''))
    .every(word => knownSecrets.has(word))
}

/**
 * A fault for each known secret; none outside production. A missing secret is not a fault.
 *
 * @param secrets by option name, a list for an option that takes several; faults never show the secret
 */
export function knownSecretFaults(
  env: 'development' | 'production',
  secrets: Readonly<Record<string, string | readonly string[] | undefined>>,
): OptionFault[] {
  if (env !== 'production') return []
  return Object.entries(secrets).flatMap(([place, given = []]) => {
    const known = [given].flat().find(isKnownSecret)
    if (known === undefined) return []
    return [
      {
        place,
        problem: `with env = production it must not be ${known === '' ? 'empty' : 'a publicly known secret'}: generate a random one`,
      },
    ]
  })
}
