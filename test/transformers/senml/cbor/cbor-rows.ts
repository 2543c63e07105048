// Decodes a pack of SenML CBOR for a test, written as readable hexadecimal digits.

import { expect } from 'vitest'
import { DecodeError } from '../../../../transformers/decode-error.ts'
import { openSenmlCbor } from '../../../../transformers/senml/cbor/cbor.ts'
import type { Transformer } from '../../../../transformers/transformer.ts'
import { outcomeOf, type Row } from '../rows.ts'

const senmlCbor = openSenmlCbor()

/** Converts `82 a0`, and `'text'`, which stands for its bytes without a head, to bytes. */
export function bytesOf(hex: string): Uint8Array {
  const digits = hex.replace(/'([^']*)'/g, (_, text: string) => Buffer.from(text).toString('hex')).replace(/\s/g, '')
  if (!/^([0-9a-f]{2})*$/.test(digits)) throw new Error(`not hexadecimal: ${hex}`)
  return Uint8Array.from(Buffer.from(digits, 'hex'))
}

/** The rows of a valid pack. */
export function rowsOf(pack: string | Uint8Array, transformer: Transformer = senmlCbor): Row[] {
  const outcome = outcomeOf(typeof pack === 'string' ? bytesOf(pack) : pack, transformer)
  if (outcome instanceof DecodeError) throw outcome
  return outcome
}

/** The rule and message of a refused pack. */
export function faultOf(pack: string | Uint8Array): { rule: string; message: string; record: number | undefined } {
  const outcome = outcomeOf(typeof pack === 'string' ? bytesOf(pack) : pack, senmlCbor)
  if (!(outcome instanceof DecodeError)) throw new Error(`not refused: ${JSON.stringify(outcome)}`)
  expect(outcome.hint, 'every fault says what to do').not.toBe('')
  return { rule: outcome.rule, message: outcome.message, record: outcome.record }
}

/** The rule that refuses a pack, or `none`. */
export function ruleOf(pack: string | Uint8Array): string {
  const outcome = outcomeOf(typeof pack === 'string' ? bytesOf(pack) : pack, senmlCbor)
  return outcome instanceof DecodeError ? outcome.rule : 'none'
}
