// Date-times of RFC 3339 §5.6 are read alike in time fields, envelopes and queries. The control plane refuses the others: control-plane/audit/audit.test.ts.

import { describe, expect, test } from 'vitest'
import { toUtc } from '../../../../control-plane/requests/text.ts'
import { openLaidOutCursor } from '../../../../pipeline/envelope/cursor.ts'
import { layoutOf } from '../../../../pipeline/envelope/layout.ts'
import { nanosecondsOf, timestampPattern } from '../../../../readers/request/time-range.ts'
import { encodeBatch, fetch } from '../../../pipeline/kafka/records/record-batches.ts'
import { timeOf } from '../rows.ts'
import { dateTimes, otherTexts } from './rfc3339-texts.ts'

const refused = 'refused'

function fieldNs(text: string): bigint | string {
  const ns = timeOf(JSON.stringify(text), 'rfc3339')
  return ns === 'time-syntax' ? refused : ns
}

function envelopeNs(text: string): bigint | string {
  const layout = layoutOf({ created: ['field:t'] })!
  const [chunk] = fetch(encodeBatch([{ key: 'k', value: JSON.stringify({ t: text, other: 1 }) }]))
  const cursor = openLaidOutCursor(chunk!.cursor(), { layout, topic: 't', payloadBytesMax: 1000 })
  expect(cursor.next()).toBe(true)
  const { fault, createdUs, createdRestNs } = cursor.message
  return fault === undefined ? BigInt(createdUs) * 1000n + BigInt(createdRestNs) : refused
}

function queryNs(text: string): bigint | string {
  return (new RegExp(timestampPattern).test(text) ? nanosecondsOf(text) : undefined) ?? refused
}

/** The control plane's database has microseconds. */
function requestUs(text: string): bigint {
  const utc = toUtc(text, '/from')
  return BigInt(Date.parse(utc)) * 1000n + BigInt(utc.slice(23, 26))
}

test.each(dateTimes)('%s is read', (text, ns) => {
  expect([fieldNs(text), envelopeNs(text), queryNs(text)]).toEqual([ns, ns, ns])
  expect(requestUs(text)).toBe(ns / 1000n)
})

// An empty field of an envelope is a missing one.
test.each(otherTexts.filter(text => text !== ''))('%j is refused', text => {
  expect([fieldNs(text), envelopeNs(text), queryNs(text)]).toEqual([refused, refused, refused])
})

describe('digits beyond the nanosecond', () => {
  const text = '2026-11-28T10:00:00.1234567890001Z'
  const ns = 1_795_860_000_123_456_789n

  test('are cut off', () => {
    expect([fieldNs(text), envelopeNs(text)]).toEqual([ns, ns])
  })

  test('are between two stored times in a query', () => {
    expect(queryNs(text)).toBe(ns + 1n)
    expect(queryNs('1795860000.1234567890001')).toBe(ns + 1n)
    expect(queryNs('1795860000.1234567890000')).toBe(ns)
    expect(queryNs('-1.1234567890001')).toBe(-1_123_456_789n)
  })
})
