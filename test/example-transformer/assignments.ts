// A transformer for lines such as `temperature=21.5`: each is a SenML record with a number and the message's time of receipt.

import { DecodeError } from '../../transformers/decode-error.ts'
import { ValueKind } from '../../transformers/record-batch.ts'
import { defaultTimeBounds, type TimeBounds, type Transformer } from '../../transformers/transformer.ts'

/** More lines would take many times the payload's size in memory. */
const linesMax = 8192
const pattern = /^([A-Za-z0-9][A-Za-z0-9:./_-]{0,127})=(-?[0-9]{1,15}(?:\.[0-9]{1,15})?)$/

export function openAssignments({ timeMinUs }: Pick<TimeBounds, 'timeMinUs'> = defaultTimeBounds): Transformer {
  return {
    decode(payload, { createdUs }, batch) {
      if (createdUs < timeMinUs) throw new DecodeError('time-range', 'the message was received before 1978', { hint: 'set the clock' })
      const lines = textOf(payload).split('\n')
      if (lines.length > linesMax)
        throw new DecodeError('line-count', `the message has more than ${linesMax} lines`, { hint: 'send fewer' })
      for (const [index, line] of lines.entries()) {
        if (line === '') continue
        const [, name, digits] = pattern.exec(line) ?? []
        if (name === undefined)
          throw new DecodeError('assignment', 'not a name and a number', { record: index, hint: 'send temperature=21.5' })
        batch.appendRecord(index, name, undefined, createdUs, ValueKind.number, Number(digits), undefined, Number.NaN, Number.NaN)
      }
    },
  }
}

function textOf(payload: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(payload)
  } catch (cause) {
    throw new DecodeError('utf-8', 'the message is not UTF-8', { hint: 'send UTF-8', cause })
  }
}
