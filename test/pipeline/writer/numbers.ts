// The smallest transformer for tests: a payload is a JSON array of numbers, with a record for each.

import type { OutgoingMessage } from '../../../pipeline/log.ts'
import { DecodeError } from '../../../transformers/decode-error.ts'
import { ValueKind } from '../../../transformers/record-batch.ts'
import type { Transformer } from '../../../transformers/transformer.ts'
import { outgoing } from '../message.ts'

/** `"bug"` throws an unexpected error; anything else but an array of numbers is refused. */
export const numbers: Transformer = {
  decode(payload, envelope, batch) {
    const text = new TextDecoder().decode(payload)
    if (text === 'bug') throw new TypeError('cannot read properties of undefined')
    if (!text.startsWith('[')) throw new DecodeError('numbers', 'the root is no array', { hint: 'send an array of numbers' })
    for (const [index, value] of (JSON.parse(text) as unknown[]).entries()) {
      if (typeof value !== 'number') throw new DecodeError('numbers', `${typeof value} is no number`, { record: index })
      batch.appendRecord(index, 'n', undefined, envelope.createdUs, ValueKind.number, value, undefined, Number.NaN, Number.NaN)
    }
  },
}

/** A message with these numbers. */
export function pack(...values: number[]): OutgoingMessage {
  return outgoing({ payload: new TextEncoder().encode(JSON.stringify(values)) })
}

/** A message with any payload. */
export function text(payload: string): OutgoingMessage {
  return outgoing({ payload: new TextEncoder().encode(payload) })
}
