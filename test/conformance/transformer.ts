// The contract of every transformer (transformers/transformer.ts).

import { describe, expect, test } from 'vitest'
import { DecodeError } from '../../transformers/decode-error.ts'
import type { Envelope } from '../../transformers/envelope.ts'
import { logPartition } from '../../transformers/log-partition.ts'
import { type MessageOrigin, Outcome, RecordBatch } from '../../transformers/record-batch.ts'
import type { Transformer } from '../../transformers/transformer.ts'

export interface TransformerUnderTest {
  transformer: Transformer
  /** Of messages with these payloads. */
  envelope: Envelope
  /** Payloads with at least one row each. */
  accepted: readonly Uint8Array[]
  /** Valid payloads without rows; empty if the format has none. */
  empty: readonly Uint8Array[]
  refused: readonly Uint8Array[]
  /** Valid in its first rows and refused later. */
  refusedHalfWay: Uint8Array
}

const origin: MessageOrigin = {
  at: logPartition(0, 3),
  offset: 41,
  channel: 'channel',
  subtopic: 'room',
  publisher: 'thing',
  protocol: 'mqtt',
}

/** The columns of all rows, without spare capacity. */
function rowsOf(batch: RecordBatch): unknown {
  return [batch.records, batch.documents].map(columns =>
    Object.entries(columns).map(([name, column]) => [name, typeof column === 'number' ? column : column.slice(0, columns.length)]),
  )
}

function faultOf(transformer: Transformer, payload: Uint8Array, envelope: Envelope, batch = new RecordBatch()): unknown {
  batch.beginMessage(origin)
  try {
    transformer.decode(payload, envelope, batch)
  } catch (error) {
    return error
  }
  return undefined
}

/** Declares the tests of the contract for one transformer. */
export function transformerConformance(name: string, open: () => TransformerUnderTest): void {
  describe(`${name} fulfils the contract of a transformer`, () => {
    test('the rows of a payload belong to the message begun last', () => {
      const { transformer, envelope, accepted } = open()
      const batch = new RecordBatch()
      for (const [message, payload] of accepted.entries()) {
        const before = batch.rowCount
        batch.beginMessage({ ...origin, offset: message })
        transformer.decode(payload, envelope, batch)
        batch.endMessage()
        expect(batch.rowCount).toBeGreaterThan(before)
        expect(batch.messages.outcome[message]).toBe(Outcome.stored)
        for (const columns of [batch.records, batch.documents]) {
          const messageRows = columns.message.slice(0, columns.length).filter(each => each === message)
          expect(new Set(columns.index.slice(columns.length - messageRows.length, columns.length)).size, 'an index is given once').toBe(
            messageRows.length,
          )
        }
      }
      const messages = [
        ...batch.records.message.slice(0, batch.records.length),
        ...batch.documents.message.slice(0, batch.documents.length),
      ]
      expect(new Set(messages).size).toBe(accepted.length)
    })

    test('a payload without rows is valid: the message is empty', () => {
      const { transformer, envelope, empty } = open()
      for (const payload of empty) {
        const batch = new RecordBatch()
        batch.beginMessage(origin)
        transformer.decode(payload, envelope, batch)
        batch.endMessage()
        expect([batch.rowCount, batch.messages.outcome[0]]).toEqual([0, Outcome.empty])
      }
    })

    test('a refused payload throws a DecodeError with a rule in kebab case, a message and a hint', () => {
      const { transformer, envelope, refused } = open()
      for (const payload of refused) {
        const fault = faultOf(transformer, payload, envelope)
        expect(fault).toBeInstanceOf(DecodeError)
        const { rule, message, hint } = fault as DecodeError
        expect(rule).toMatch(/^[a-z0-9]+(-[a-z0-9]+)*$/)
        expect(message).not.toBe('')
        expect(hint).not.toBe('')
        expect(/[\p{Cc}\p{Cs}]/u.test(message + hint), 'no control character, no lone surrogate').toBe(false)
        expect(message.length).toBeLessThan(300)
      }
    })

    test('any bytes throw nothing but a DecodeError', () => {
      const { transformer, envelope, accepted } = open()
      const hostile = [
        new Uint8Array(0),
        ...Array.from({ length: 256 }, (_, byte) => Uint8Array.of(byte)),
        ...Array.from({ length: 256 }, (_, byte) => new Uint8Array(300).fill(byte)),
        ...['[', '{"a":', '[[', '[{"":', '\x81', '\xa1\x00', '\x9f', '\xbf\x00', '\xc1', '\xd8\xff'].map(nest =>
          Buffer.from(nest.repeat(60_000), 'latin1'),
        ),
        ...accepted.flatMap(payload => Array.from(payload, (_, end) => payload.subarray(0, end))),
        ...accepted.flatMap(payload => Array.from(payload, (_, at) => payload.with(at, (payload[at]! + 1) % 256))),
        ...accepted.flatMap(payload => Array.from(payload, (_, at) => payload.with(at, payload[at]! ^ 0x80))),
      ]
      for (const payload of hostile) {
        const fault = faultOf(transformer, payload, envelope)
        if (fault !== undefined) expect(fault).toBeInstanceOf(DecodeError)
      }
    })

    test('a payload refused after some rows leaves nothing once its rows are dropped', () => {
      const { transformer, envelope, accepted, refusedHalfWay } = open()
      const batch = new RecordBatch()
      expect(faultOf(transformer, accepted[0]!, envelope, batch)).toBeUndefined()
      batch.endMessage()
      const before = structuredClone(rowsOf(batch))
      expect(faultOf(transformer, refusedHalfWay, envelope, batch)).toBeInstanceOf(DecodeError)
      batch.dropRows(Outcome.deadLettered)
      expect(rowsOf(batch)).toEqual(before)
    })

    test('a payload decodes the same after a refused one', () => {
      const { transformer, envelope, accepted, refusedHalfWay } = open()
      const fresh = new RecordBatch()
      faultOf(transformer, accepted[0]!, envelope, fresh)
      const after = new RecordBatch()
      faultOf(transformer, refusedHalfWay, envelope, new RecordBatch())
      faultOf(transformer, accepted[0]!, envelope, after)
      expect(rowsOf(after)).toEqual(rowsOf(fresh))
    })

    test('the payload is neither changed nor referenced', () => {
      const { transformer, envelope, accepted, refused } = open()
      for (const payload of [...accepted, ...refused]) {
        const lent = Uint8Array.from(payload)
        const batch = new RecordBatch()
        faultOf(transformer, lent, envelope, batch)
        expect(lent).toEqual(Uint8Array.from(payload))
        const before = structuredClone(rowsOf(batch))
        lent.fill(0xff)
        expect(rowsOf(batch)).toEqual(before)
      }
    })

    test('a payload may be a view of a larger buffer, as a Buffer or a Uint8Array', () => {
      const { transformer, envelope, accepted } = open()
      for (const payload of accepted) {
        const large = new Uint8Array(payload.length + 20).fill(0x5d)
        large.set(payload, 7)
        const whole = new RecordBatch()
        faultOf(transformer, Uint8Array.from(payload), envelope, whole)
        for (const view of [large.subarray(7, 7 + payload.length), Buffer.from(large.buffer, 7, payload.length)]) {
          const viewed = new RecordBatch()
          faultOf(transformer, view, envelope, viewed)
          expect(rowsOf(viewed)).toEqual(rowsOf(whole))
        }
      }
    })

    test('it is synchronous, and the same input gives the same rows', () => {
      const { transformer, envelope, accepted } = open()
      const decode = (): unknown => {
        const batch = new RecordBatch()
        for (const payload of accepted) {
          batch.beginMessage(origin)
          expect(transformer.decode(payload, envelope, batch)).toBeUndefined()
        }
        return rowsOf(batch)
      }
      expect(decode()).toEqual(decode())
    })
  })
}
