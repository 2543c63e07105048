// Compressed publishes: stored as they were before, and bounded by the size that they have then.

import { constants, gzipSync, zstdCompressSync } from 'node:zlib'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Body, channel, type IngestSite, openSite } from './site.ts'

const pack = '[{"n":"temperature","v":21.5}]'
const path = `/channels/${channel}/messages`

let site: IngestSite
beforeAll(async () => {
  site = await openSite()
})
afterAll(() => site[Symbol.asyncDispose]())

/** Compressed, with a header that asks for a window of 2^27 bytes in memory (RFC 8878 §3.1.1.1.2). */
function largeWindow(text: string): Body {
  const frame = Uint8Array.from(zstdCompressSync(text, { params: { [constants.ZSTD_c_contentSizeFlag]: 0 } }))
  // Not a single segment, so a window stands behind the descriptor.
  expect(frame[4]! & 0x20).toBe(0)
  frame[5] = (27 - 10) << 3
  return frame
}

test.each([
  ['gzip', gzipSync],
  ['x-gzip', gzipSync],
  ['ZSTD', zstdCompressSync],
])('a body in %s is stored as it was before', async (coding, compress) => {
  const text = `[{"n":"temperature","vs":"${'a'.repeat(262_000)}"}]`
  const answer = await site.publish(path, compress(text), { 'content-encoding': coding, prefer: 'handling=strict' })
  expect(answer.status).toBe(202)
  expect(Buffer.from(site.messages().at(-1)!['payload'] as Uint8Array).toString()).toBe(text)
})

test.each<[what: string, status: number, sentence: RegExp, coding: string, body: Body]>([
  ['a body of an unknown coding', 415, /use one of gzip, zstd, or none/, 'br', pack],
  ['a body of two codings', 415, /use one of gzip, zstd, or none/, 'gzip, gzip', pack],
  ['a body that is not gzip', 400, /not gzip/, 'gzip', pack],
  ['gzip that is cut off', 400, /cut off/, 'gzip', gzipSync(pack).subarray(0, -9)],
  ['zstd that is cut off', 400, /cut off/, 'zstd', zstdCompressSync(pack).subarray(0, -3)],
  ['gzip of a payload that is too large', 413, /262144 bytes/, 'gzip', gzipSync('a'.repeat(262_145))],
  ['zstd of a gigabyte', 413, /262144 bytes/, 'zstd', zstdCompressSync(Buffer.alloc(2 ** 30))],
  ['zstd that asks for 128 MiB', 400, /not zstd/, 'zstd', largeWindow(pack)],
  ['two frames of zstd', 400, /behind its end/, 'zstd', Buffer.concat([zstdCompressSync('['), zstdCompressSync(']')])],
  ['compressed emptiness', 400, /empty/, 'gzip', gzipSync('')],
])('%s is answered with %i, and nothing is stored', async (_what, status, sentence, coding, body) => {
  const before = site.messages().length
  const answer = await site.publish(path, body, { 'content-encoding': coding })
  expect([answer.status, answer.json['detail']]).toEqual([status, expect.stringMatching(sentence)])
  expect(site.messages()).toHaveLength(before)
})
