// The page of a store in docs/stores names every column or field of a record: people query them.

import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { messagesTable } from '../../sinks/cassandra/schema.ts'
import { encode as encodeInfluxdb } from '../../sinks/influxdb/encode.ts'
import { originFields, recordFields } from '../../sinks/mongodb/bson.ts'
import { batchOf, fullRecord } from './batches.ts'
import { messageColumns } from './postgres/store.ts'

/** The tags and fields of a line, whose values have no spaces. */
function namesOf(line: string): string[] {
  return [...line.matchAll(/[ ,]([\w/]+)=/g)].map(([, name]) => name!)
}
const line = Buffer.from(encodeInfluxdb(batchOf(0, 1, [{ offset: 0, records: [fullRecord] }]), [1]).lines.bytes).toString()

test.each([
  ['postgres', messageColumns.split(', ')],
  ['cassandra', messagesTable.columns.map(({ name }) => name)],
  ['influxdb', namesOf(line)],
  ['mongodb', Object.keys({ ...originFields, ...recordFields })],
])('%s', (store, names) => {
  expect(names).toContain('channel')
  const page = readFileSync(new URL(`../../docs/stores/${store}.md`, import.meta.url), 'utf8')
  const tables = page.split('\n').filter(line => line.startsWith('|'))
  expect(names.filter(name => !tables.some(row => row.includes(`\`${name}\``)))).toEqual([])
})
