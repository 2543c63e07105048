// Compares the time of a document with exact arithmetic: Unix times, and the message's time if there is no time field.

import type { JsonValue } from '../../../transformers/record-batch.ts'
import type { Transformer } from '../../../transformers/transformer.ts'
import { timeFields } from '../inputs/documents.ts'
import { differ, type Property } from '../property.ts'
import { envelope, openSlate } from './slate.ts'

const receivedNs = BigInt(envelope.createdUs) * 1000n + BigInt(envelope.createdRestNs)

/** Nanoseconds per unit as a power of ten, for the formats that need only arithmetic. */
const unitOf: Readonly<Record<string, number>> = { unix: 9, unix_ns: 0 }

/** For a number that was a double: the step of a double near 1.7e18. */
const stepNs = 512n

export function timesAreExact(transformer: Transformer): Property {
  const slate = openSlate()
  return {
    name: 'a Unix time is exact to the nanosecond, and without a time field it is that of the message',
    holds(input) {
      if (slate.decode(transformer, input) !== undefined) return
      const { documents } = slate.batch
      for (let row = 0; row < documents.length; row++) {
        const payload = documents.payload[row]!
        const field = timeFields.find(({ fieldName }) => Object.hasOwn(payload, fieldName))
        const ns = BigInt(documents.createdUs[row]!) * 1000n + BigInt(documents.createdRestNs[row]!)
        const expected = field === undefined ? receivedNs : nsOf(payload[field.fieldName]!, unitOf[field.fieldFormat])
        if (expected === undefined) continue
        const apart = ns > expected ? ns - expected : expected - ns
        const isDouble = field !== undefined && typeof payload[field.fieldName] === 'number'
        if (apart > (isDouble ? stepNs : 0n)) throw new Error(differ(`the time of document ${row}`, ns, expected))
      }
    },
  }
}

/** The time of a value; undefined if it takes more than arithmetic. */
function nsOf(value: JsonValue, unit: number | undefined): bigint | undefined {
  if (unit === undefined) return undefined
  if (typeof value === 'number' && !Number.isInteger(value)) return undefined
  if (typeof value !== 'string') return BigInt(value as number | bigint) * 10n ** BigInt(unit)
  const [, sign, whole = '', fraction = ''] = /^([+-]?)(\d+)(?:[.,](\d+))?$/.exec(value) ?? []
  if (sign === undefined) throw new Error(differ('what is no Unix time was read as one', value, 'digits'))
  // Towards zero: digits beyond the nanosecond are cut off.
  const magnitude = BigInt(whole + fraction.slice(0, unit).padEnd(unit, '0'))
  return sign === '-' ? -magnitude : magnitude
}
