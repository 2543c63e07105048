// The option `env`, and what it forbids: in production no secret may be one that stands in a document or that everybody tries first.

import { Type } from 'typebox'
import type { OptionFault } from './option-faults.ts'

export const environmentOption = Type.Enum(['development', 'production'], {
  default: 'development',
  description: 'With `production` the start refuses publicly known secrets.',
})

/** Of our own documents and samples, of the images and tools around them, and what people type until they think of something better. */
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

/** True for a secret that is known, or known with digits and marks at its end or repeated, and for one character alone: `changeme-changeme`, `admin123`. */
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
 * The faults of known secrets, none outside production. A secret that is not given is none of them.
 *
 * @param secrets by the option's name, of an option that takes several the list; the fault never shows the secret
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
        problem: `with env = production it may not be ${known === '' ? 'empty' : 'a publicly known secret'}: generate a random one`,
      },
    ]
  })
}
