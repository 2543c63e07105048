// Which decoded messages are kept: the most recently used, bounded in bytes and in number.

import { expect, test } from 'vitest'
import { type Decoding, openDecoding } from '../../../pipeline/live/decoding.ts'
import type { LiveMessage } from '../../../pipeline/live/messages.ts'
import { emptyMessage } from '../../../pipeline/source.ts'
import { decoder } from './follower.ts'

const large = Buffer.from(JSON.stringify(Array.from({ length: 10_000 }, () => ({ n: 'a', v: 1 }))))
const small = Buffer.from('[{"n":"a","v":1}]')

function messageOf(decoding: Decoding, offset: number, payload: Buffer): LiveMessage {
  const envelope = { channel: 'mine', publisher: 't1', protocol: 'http', createdUs: 1_700_000_000_000_000 }
  return decoding.messageOf({ message: Object.assign(emptyMessage(), envelope, { offset, payload }) }, 0)
}

function decode(decoding: Decoding, offset: number, payload: Buffer): LiveMessage {
  const message = messageOf(decoding, offset, payload)
  expect(message.batch.messages.length).toBe(1)
  return message
}

test.each([
  ['a few large messages', large, 12],
  ['some hundreds of small ones', small, 300],
])('%s exceed the cache, and one that is used stays', (_what, payload, count) => {
  const decoding = openDecoding(decoder)
  const first = decode(decoding, 0, payload)
  expect(decode(decoding, 0, payload)).toBe(first)
  for (let offset = 1; offset < count; offset++) {
    decode(decoding, offset, payload)
    expect(decoding.kept(0, 0)).toBe(first)
  }
  const kept = Array.from({ length: count }, (_, offset) => offset).filter(offset => decoding.kept(0, offset) !== undefined)
  expect(kept).toContain(count - 1)
  expect(kept.length).toBeLessThan(count / 2)
  expect(decoding.kept(1, 0)).toBeUndefined()
})

test('an undecodable message is kept without rows, so that it is not decoded again', () => {
  const decoding = openDecoding(decoder)
  const message = decode(decoding, 3, Buffer.from('{"no":"pack"}'))
  expect(message.batch.rowCount).toBe(0)
  expect(decoding.kept(0, 3)).toBe(message)
})

test('a message is decoded when its rows are first asked for, from bytes of its own', () => {
  const decodings: number[] = []
  const counted: typeof decoder.transformer = { decode: (...of) => (decodings.push(1), decoder.transformer.decode(...of)) }
  const decoding = openDecoding({ ...decoder, transformer: counted })
  const payload = Buffer.from(small)
  const message = messageOf(decoding, 0, payload)
  expect(decodings).toHaveLength(0)
  payload.fill(0)
  expect(Buffer.from(message.raw.payload).equals(small)).toBe(true)
  expect([message.batch.rowCount, message.batch.rowCount, decodings.length]).toEqual([1, 1, 1])
})
