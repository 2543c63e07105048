// A document on its whole way: from a device's bytes, through a store, to the bytes of the answer.

import { afterAll, beforeAll, expect, test } from 'vitest'
import { openJsonDocuments } from '../../../transformers/json/documents.ts'
import { logPartition } from '../../../transformers/log-partition.ts'
import { RecordBatch } from '../../../transformers/record-batch.ts'
import { pageQuery } from '../../conformance/reader/index.ts'
import { pageText } from '../../readers/answers/page-text.ts'
import { openEmbeddedSite, type PostgresSite } from '../../readers/postgres/site.ts'
import { envelope, origin, utf8 } from './rows.ts'

const payloads = [
  '{"id": 8659456789564231564, "least": -9223372036854775808, "b": {"z": [1.50, 1e2, {"y": null, "x": true}], "a/b": "slash"}, "t": 1699990000.123456789}',
  '[{"t": "1699990001,000000001", "ü": "\\u00fc\\ud83d\\ude00"}, {}, {"at": "2023-10-29 02:30:00 CET", "__proto__": {"constructor": 1}}]',
  '[]',
  '{"t": 1699990002, "t": 1699990003}',
]

let site: PostgresSite

beforeAll(async () => {
  site = await openEmbeddedSite()
})
afterAll(() => site.close())

test('documents are returned with every digit of their integers and times, in the canonical form', async () => {
  const transformer = openJsonDocuments({
    timeFields: [
      { fieldName: 't', fieldFormat: 'unix' },
      { fieldName: 'at', fieldFormat: '2006-01-02 15:04:05 MST', location: 'Europe/Berlin' },
    ],
  })
  const batch = new RecordBatch()
  for (const [offset, payload] of payloads.entries()) {
    batch.beginMessage({ ...origin, offset })
    transformer.decode(utf8(payload), envelope, batch)
    batch.endMessage()
  }
  batch.cover(logPartition(0, 0), 0, payloads.length)
  await site.store(batch)

  const rows = await site.reader.read(pageQuery({ channel: 'channel', format: 'room', limit: 10 }), new AbortController().signal)
  const answer = pageText({ total: { total: rows.length, isExact: true }, offset: 0, limit: 10, format: 'room' }, rows)
  const message = (created: string, payload: string): string =>
    `{"Channel":"channel","Subtopic":"house.room","Publisher":"thing","Protocol":"http","Created":${created},"Payload":${payload}}`
  expect(answer).toBe(
    `{"total":5,"offset":0,"limit":10,"format":"room","messages":[${[
      message('1700000000000000007', '{}'),
      message('1699990003000000000', '{"t":1699990003}'),
      message('1699990001000000001', '{"t":"1699990001,000000001","ü":"ü😀"}'),
      message(
        '1699990000123456789',
        '{"b":{"a/b":"slash","z":[1.5,100,{"x":true,"y":null}]},"id":8659456789564231564,"least":-9223372036854775808,"t":1699990000.1234567}',
      ),
      message('1698543000000000000', '{"__proto__":{"constructor":1},"at":"2023-10-29 02:30:00 CET"}'),
    ].join(',')}]}`,
  )
})
