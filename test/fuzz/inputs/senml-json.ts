// Writes packs as SenML JSON, in one of many equivalent forms.

import type { Random } from '../random.ts'
import { type Fields, openPackMaker, type PackValue } from './packs.ts'
import { blanks, numberText, textJson } from './texts.ts'

/** A pack of SenML JSON of at most this size, or of one record. */
export function senmlJsonPack(random: Random, bytes: number, oddOneIn = 8): Uint8Array {
  const pack = openPackMaker(random, oddOneIn)
  const parts: string[] = []
  let length = 8
  for (;;) {
    const part = recordJson(random, pack.next())
    // A character takes up to three bytes, which is what counts.
    length += Buffer.byteLength(part) + 1
    if (length > bytes && parts.length > 0) break
    parts.push(part)
  }
  return Buffer.from(`${blanks(random)}[${parts.join(',')}]${blanks(random)}`)
}

function recordJson(random: Random, fields: Fields): string {
  const members = fields.map(([label, value]) => `${blanks(random)}${textJson(random, label)}:${blanks(random)}${valueJson(random, value)}`)
  return `{${members.join(',')}${blanks(random)}}`
}

function valueJson(random: Random, value: PackValue): string {
  if (typeof value === 'string') return textJson(random, value)
  if (typeof value === 'number') return numberText(random, value)
  if (value instanceof Uint8Array) return `"${Buffer.from(value).toString('base64url')}"`
  return JSON.stringify(value)
}
